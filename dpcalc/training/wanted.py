"""What is asked of a run besides its settings, and where it leaves its traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dpcalc.asked import number, option, whole
from dpcalc.files import LIMIT
from dpcalc.numbers import PROBABILITY
from dpcalc.training.options import DATA, PRIVACY

_FILES = "Search, log and checkpoint"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked of a run besides its settings."""

    data: Annotated[
        str,
        option(
            "--data",
            metavar="PATH",
            help="Folder of IDX files, .npz, .csv with a label column, or synthetic.",
            panel=DATA,
        ),
    ] = "synthetic"
    test_data: Annotated[
        str | None, option("--test-data", metavar="FILE", help="A .csv to test on, if --data is one.", panel=DATA)
    ] = None
    epsilon: Annotated[
        float | None,
        number("--epsilon", help="Find the noise for this ε; 3 if no noise is given.", panel=PRIVACY),
    ] = None
    delta: Annotated[float, number("--delta", help="δ of the guarantee.", allowed=PROBABILITY, panel=PRIVACY)] = 1e-5
    runs: Annotated[int, whole("--grid-runs", help="Share the budget over so many such runs.", panel=_FILES)] = 1
    grid: Annotated[
        str | None,
        option("--grid", metavar="FILE", help="YAML of values to search, under one budget.", panel=_FILES),
    ] = None
    save: Annotated[str | None, option("--save", metavar="FILE", help="Write the model as .npz.", panel=_FILES)] = None
    read_limit: Annotated[
        int,
        whole("--read-limit", help="Bytes that reading a file may take, if it has fewer.", panel="Running and files"),
    ] = LIMIT


@dataclass(frozen=True, kw_only=True)
class Files:
    """Where a run leaves its traces; all of them are sensitive."""

    log: Annotated[
        str | None, option("--log", metavar="FILE", help="Write norms to .npy or .csv. Sensitive.", panel=_FILES)
    ] = None
    checkpoint: Annotated[
        str | None, option("--checkpoint", metavar="FILE", help="Save the run as it goes.", panel=_FILES)
    ] = None
    resume: Annotated[bool, option("--resume", help="Go on from the checkpoint.", panel=_FILES)] = False
