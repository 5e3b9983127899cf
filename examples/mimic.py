"""MIMIC-III's phenotyping task, for those who hold the data: 714 features and 25 labels of every stay.

MIMIC-III is not public; PhysioNet gives it to those who have signed for it. From its tables the benchmark of
Harutyunyan et al. (2019) makes `phenotyping/train/` and `phenotyping/test/`, and this reads them. In each there is

- `listfile.csv`: a header `stay,period_length,` and 25 conditions, then for every stay the name of its file, its hours,
  and 0 or 1 for each condition;
- a file for every stay: a header `Hours,` and the 17 channels below, then rows of measurements, with blanks.

As that benchmark's logistic regression does, each channel becomes 42 numbers: least, largest, mean, deviation, skewness
and count of its values in the whole stay, in its first and last 10, 25 and 50 %. A channel is taken relative to its
normal value, which is public; a missing number is 0, a count is taken by its logarithm. So nothing is learnt from the
records before training begins. Several stays can be one person's: what is guaranteed here is for a stay.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from dpcalc.errors import InputError
from dpcalc.training.data import Dataset
from dpcalc.training.labels import packed
from dpcalc.training.tiles import as_aligned

# Channel: its normal value, from the benchmark's discretizer_config.json.
NORMAL = {
    "Capillary refill rate": 0.0, "Diastolic blood pressure": 59.0, "Fraction inspired oxygen": 0.21,
    "Glascow coma scale eye opening": 4.0, "Glascow coma scale motor response": 6.0, "Glascow coma scale total": 15.0,
    "Glascow coma scale verbal response": 5.0, "Glucose": 128.0, "Heart Rate": 86.0, "Height": 170.0,
    "Mean blood pressure": 77.0, "Oxygen saturation": 98.0, "Respiratory rate": 19.0,
    "Systolic blood pressure": 118.0, "Temperature": 36.6, "Weight": 81.0, "pH": 7.4,
}  # fmt: skip
# Words of the Glasgow coma scale that come without their number: eyes, movement, speech.
_WORDS = {
    "Glascow coma scale eye opening": ("none", "to pain", "to speech", "spontaneously"),
    "Glascow coma scale motor response": (
        "no response", "abnormal extension", "abnormal flexion", "flex-withdraws", "localizes pain", "obeys commands",
    ),
    "Glascow coma scale verbal response": (
        "no response", "incomprehensible sounds", "inappropriate words", "confused", "oriented",
    ),
}  # fmt: skip
# Shares of a stay: from its beginning, or to its end.
PERIODS = ((0.0, 1.0), (0.0, 0.1), (0.0, 0.25), (0.0, 0.5), (0.9, 1.0), (0.75, 1.0), (0.5, 1.0))
FEATURES = len(NORMAL) * len(PERIODS) * 6


def load_mimic(folder: str) -> tuple[Dataset, list[str]]:
    """The stays of `phenotyping/` with their labels, and the names of the conditions that these are."""
    train, test = (_read_part(Path(folder) / name) for name in ("train", "test"))
    if train[2] != test[2]:
        raise InputError("train and test list different conditions.", where=folder)
    data = Dataset(
        name="MIMIC-III phenotyping", x_train=as_aligned(train[0]), y_train=packed(train[1]),
        x_test=as_aligned(test[0]), y_test=packed(test[1]), classes=len(train[2]), multilabel=True,
    )  # fmt: skip
    return data, train[2]


def _read_part(folder: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    path = folder / "listfile.csv"
    if not path.is_file():
        raise InputError("no such file; expected the benchmark's phenotyping folder.", where=str(path))
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    if not rows or rows[0][:2] != ["stay", "period_length"]:
        raise InputError("expected a header that begins with stay,period_length.", where=str(path))
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise InputError("expected stays with a value for every condition of the header.", where=str(path))
    labels = np.array([[int(value) for value in row[2:]] for row in rows[1:]])
    features = np.stack([stay_features(folder / row[0]) for row in rows[1:]])
    return features, labels, rows[0][2:]


def stay_features(path: Path) -> np.ndarray:
    """The 714 numbers of a stay."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    places = {name: index for index, name in enumerate(rows[0])}
    missing = [name for name in ("Hours", *NORMAL) if name not in places]
    if missing:
        raise InputError(f"expected a column {missing[0]}.", where=str(path))
    found = []
    for channel, normal in NORMAL.items():
        read = ((float(row[places["Hours"]]), _number(channel, row[places[channel]])) for row in rows[1:])
        values = [(hour, value) for hour, value in read if value is not None]
        found.append(_channel_features(np.array(values).reshape(-1, 2), normal))
    return np.concatenate(found).astype(np.float32)


def _number(channel: str, text: str) -> float | None:
    """The number at the beginning of an entry, or that of its words; None for a blank."""
    text = text.strip().lower()
    words = _WORDS.get(channel, ())
    if text in words:
        return float(words.index(text) + 1)
    if text == "no response-ett":
        return 1.0
    found = re.match(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", text)
    return float(found[0]) if found else None


def _channel_features(values: np.ndarray, normal: float) -> np.ndarray:
    """Of a channel's (hour, value): six numbers for each period; 0 where there is no value."""
    numbers = np.zeros((len(PERIODS), 6))
    if len(values):
        first, last = values[0, 0], values[-1, 0]
        for place, (start, stop) in zip(numbers, PERIODS, strict=True):
            low, high = (first + share * (last - first) for share in (start, stop))
            some = values[(values[:, 0] > low - 1e-6) & (values[:, 0] < high + 1e-6), 1]
            if len(some):
                relative = np.clip((some - normal) / (normal or 1.0), -10, 10)
                place[:] = (*_moments(relative), np.log1p(len(some)))
    return numbers.ravel()


def _moments(values: np.ndarray) -> tuple[float, ...]:
    deviation = float(values.std())
    skewness = float(np.mean(((values - values.mean()) / deviation) ** 3)) if deviation > 1e-9 else 0.0
    return float(values.min()), float(values.max()), float(values.mean()), deviation, skewness
