"""AG News as vectors of words: the first words of each article, looked up in GloVe, one after another.

Both are for the reader to fetch: a folder with `train.csv` and `test.csv` (lines of class, title, description) and a
GloVe text file of 50 numbers a word. The paper speaks of 25 words, but its model of 113,156 parameters takes 750
numbers, which is 15 words of 50.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TextIO

import numpy as np

from dpcalc.errors import InputError
from dpcalc.training.data import Dataset

WORDS = 15


def read_vectors(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    """The vectors of those of the wanted words that the file has."""
    found: dict[str, np.ndarray] = {}
    width = None
    with _opened(path, "GloVe's text file") as lines:
        for number, line in enumerate(lines, 1):
            word, *numbers = line.rstrip().split(" ")
            if word not in wanted:
                continue
            width = width or len(numbers)
            try:
                found[word] = np.array(numbers, dtype=np.float32)
            except ValueError:
                found[word] = np.empty(0, dtype=np.float32)
            if not width or found[word].size != width or not np.isfinite(found[word]).all():
                raise InputError(f"line {number}: expected a word and {width or 50} numbers.", where=str(path))
    if not found:
        raise InputError("has none of the articles' words.", where=str(path))
    return found


def read_articles(path: Path) -> tuple[list[list[str]], np.ndarray]:
    """The first words and the class, from 0, of each article."""
    words, classes = [], []
    with _opened(path, "AG News's lines of class, title and description") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if len(row) < 2 or not re.fullmatch(r"[1-9]\d{0,3}", row[0].strip()):
                told = f"line {number}: expected a class from 1 on, a title and a description, and no header."
                raise InputError(told, where=str(path))
            words.append(re.findall(r"[a-z0-9']+", " ".join(row[1:]).lower())[:WORDS])
            classes.append(int(row[0]) - 1)
    if not words:
        raise InputError("has no articles.", where=str(path))
    return words, np.array(classes)


def _opened(path: Path, what: str) -> TextIO:
    if not path.is_file():
        raise InputError(f"no such file; expected {what}.", where=str(path))
    return path.open(encoding="utf-8", newline="")


def load_news(folder: str, glove: str) -> Dataset:
    train, test = (read_articles(Path(folder) / name) for name in ("train.csv", "test.csv"))
    vectors = read_vectors(Path(glove), {word for words, _ in (train, test) for article in words for word in article})
    width = len(next(iter(vectors.values())))
    arrays = []
    for articles, _ in (train, test):
        x = np.zeros((len(articles), WORDS, width), dtype=np.float32)
        for row, article in zip(x, articles, strict=True):
            for place, word in enumerate(article):
                row[place] = vectors.get(word, 0)
        arrays.append(x.reshape(len(x), -1))
    classes = int(max(train[1].max(), test[1].max())) + 1
    return Dataset(
        name="AG News", x_train=arrays[0], y_train=train[1], x_test=arrays[1], y_test=test[1], classes=classes
    )
