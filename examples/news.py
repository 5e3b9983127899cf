"""AG News as vectors of words: the first words of each article, looked up in GloVe, one after another.

Both are for the reader to fetch: a folder with `train.csv` and `test.csv` (lines of class, title, description) and a
GloVe text file of 50 numbers a word. The paper speaks of 25 words, but its model of 113,156 parameters takes 750
numbers, which is 15 words of 50.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from dpcalc.training.data import Dataset

WORDS = 15


def read_vectors(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    """The vectors of those of the wanted words that the file has."""
    found = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            word, _, numbers = line.partition(" ")
            if word in wanted:
                found[word] = np.array(numbers.split(), dtype=np.float32)
    return found


def read_articles(path: Path) -> tuple[list[list[str]], np.ndarray]:
    """The first words and the class, from 0, of each article."""
    words, classes = [], []
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines):
            words.append(re.findall(r"[a-z0-9']+", " ".join(row[1:]).lower())[:WORDS])
            classes.append(int(row[0]) - 1)
    return words, np.array(classes)


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
    classes = int(train[1].max()) + 1
    return Dataset(
        name="AG News", x_train=arrays[0], y_train=train[1], x_test=arrays[1], y_test=test[1], classes=classes
    )
