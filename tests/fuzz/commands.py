"""Cases for the fuzzer beside files: ledgers, reports, and options of the larger commands."""

from __future__ import annotations

import io
import random
from pathlib import Path

from dpcalc.cli.main import main
from tests.fuzz.spoil import spoilt, spoilt_text, with_nasty_words


def run(arguments: list[str]) -> None:
    """A command that is right, for the files that it makes."""
    from contextlib import redirect_stderr, redirect_stdout, suppress

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit):
        main(arguments)


def csv_data(folder: Path) -> str:
    """Records to train on."""
    path = folder / "data.csv"
    path.write_text("a,b,label\n" + "".join(f"{n % 3},{n % 5},{n % 2}\n" for n in range(12)))
    return str(path)


def ledger_file(dice: random.Random, folder: Path) -> list[str]:
    path = _ledger(folder)
    path.write_bytes(spoilt(dice, path.read_bytes()))
    words = dice.choice(["status L", "status L b", "log L", "verify L", "export L", "spend L b -m gdp,mu=0.1"])
    return ["ledger", *words.replace("L", str(path)).split()]


def ledger_export(dice: random.Random, folder: Path) -> list[str]:
    path = folder / "export.jsonl"
    run(["ledger", "export", str(_ledger(folder)), "-o", str(path)])
    path.write_bytes(spoilt_text(dice, path.read_text()))
    return ["ledger", "import", str(folder / "other.db"), str(path)]


def _ledger(folder: Path) -> Path:
    path = folder / "ledger.db"
    run(["ledger", "init", str(path), "--budget", "b", "--epsilon", "3", "--delta", "1e-6"])
    run(["ledger", "spend", str(path), "b", "-m", "gaussian,noise_multiplier=9", "--key", "k", "--note", "n"])
    return path


def ledger_options(dice: random.Random, folder: Path) -> list[str]:
    path = str(_ledger(folder)) if dice.random() < 0.6 else str(folder / "new.db")
    commands = (
        "init L --budget c --epsilon 1 --delta 1e-6 --unit person --adjacency add-remove --filter rdp",
        "init L --budget c --mu 1 --parent b --parallel x,y",
        "spend L b -m laplace,scale=9,sensitivity=1 --key k2 --by me --note text",
        "status L b --what-if -m",
        "void L k --reason mistake",
    )
    words = with_nasty_words(dice, dice.choice(commands).split(), first=3)
    return ["ledger", *(path if word == "L" else word for word in words)]


def two_releases(dice: random.Random, folder: Path) -> list[str]:
    """`report`, `diff` and `verify` of a result and a spec of which one is spoilt."""
    result, spec = folder / "result.json", folder / "spec.yaml"
    run(["compose", "-m", "gaussian,noise_multiplier=3,count=4", "--delta", "1e-5", "-f", "json", "-o", str(result)])
    spec.write_text("mechanisms:\n  - {type: laplace, scale: 10, sensitivity: 1}\n  - {type: gdp, mu: 0.3}\n")
    spoilt_one = dice.choice([result, spec])
    spoilt_one.write_bytes(spoilt_text(dice, spoilt_one.read_text()))
    command = dice.choice(["report", "statement", "page", "diff", "verify"])
    if command == "diff":
        return ["diff", str(spec), str(result), "--delta", "1e-5"]
    if command == "verify":
        return ["verify", str(result), "--seconds", "0.5"]
    words = ["report", str(spoilt_one), "--delta", "1e-5"]
    if command == "statement":
        return [*words, "--statement", dice.choice(["model-card", "registry"])]
    return words if command == "report" else [*words, "-o", str(folder / dice.choice(["page.html", "page.md"]))]


def filter_options(dice: random.Random, folder: Path) -> list[str]:
    path = folder / "log.csv"
    path.write_text("step,id,norm\n0,a,1\n0,b,0.5\n1,a,1\n1,b,0.25\n")
    command = dice.choice(
        [
            "filter LOG --filter gdp --sigma 4 --mu 1 --odometer 0.5 --mode drop",
            "filter LOG --filter gdp --noise-multiplier 4 --clip 1 --epsilon 1 --delta 1e-5 --anytime 2",
            "filter LOG --filter rdp --sigma 4 --order 8 --rho 0.1 --sample-rate 0.01 --delta 1e-5",
            "filter LOG --filter rdp --sigma 4 --epsilon 2 --delta 1e-6 --finished --read-limit 1000000",
            "filter LOG --filter gdp --sigma 2 --norm-budget 3 --mode clip --max-mu 1",
        ]
    )
    words = with_nasty_words(dice, command.split(), first=2)
    return [str(path) if word == "LOG" else word for word in words]


def train_options(dice: random.Random, folder: Path) -> list[str]:
    command = dice.choice(
        [
            "--algorithm sgd --batch-size 4 --steps 2 --lr 0.1 --clip 1 --noise-multiplier 3 --seed 1",
            "--algorithm gd --steps 2 --epsilon 5 --delta 1e-3 --filter gdp --extra-steps 1",
            "--algorithm cgd --batch-size 4 --epochs 1 --regularization 0.1 --feature-clip 1 --noise-multiplier 3",
            "--algorithm gd --steps 2 --clipping quantile --noise-multiplier 3 --delta 1e-4 --grid-runs 2",
        ]
    )
    words = with_nasty_words(dice, command.split(), first=1)
    # Millions of steps are a wish that is granted, slowly.
    words = ["3" if word.isdecimal() and len(word) > 4 else word for word in words]
    return ["train", "--model", "logistic", "--data", csv_data(folder), *words]


_SAMPLED = (
    "{type: gaussian, noise_multiplier: 1.1, sampling: {scheme: poisson, rate: 256/60000}, count: 50}",
    "{type: gaussian, sigma: 3, sensitivity: 1, sampling: {scheme: fixed-size, batch_size: 5, dataset_size: 90}}",
    "{type: dp-sgd, noise_multiplier: 1.1, batch_size: 256, dataset_size: 6000, epochs: 2, sampling: poisson}",
    "{type: gaussian, noise_multiplier: 2, sampling: {scheme: random-allocation, steps: 8, selected: 2}, count: 2}",
    "{type: gaussian, noise_multiplier: 2, sampling: "
    "{scheme: truncated-poisson, rate: 0.05, dataset_size: 90, largest_batch: 12}, count: 5}",
    "{type: laplace, scale: 9, sensitivity: 1, sampling: {scheme: shuffled, rate: 0.1}, count: 10}",
    "{type: histogram, sigma: 9, sensitivity: 1, cells: 4}",
    "{type: staircase, epsilon: 0.4, gamma: 0.3}",
    "{type: randomized-response, p: 0.7, k: 4}",
)


def sampled_spec(dice: random.Random, folder: Path) -> list[str]:
    """Nested entries in a file that another one includes, composed or calibrated."""
    entry = dice.choice(_SAMPLED)
    words = ["compose", "--delta", "1e-6"]
    if dice.random() < 0.3:
        entry = entry.replace("noise_multiplier: 1.1", "noise_multiplier: solve").replace("sigma: 3", "sigma: solve")
        words = ["calibrate", "--epsilon", "2", "--delta", "1e-6"]
    path, whole = folder / "part.yaml", folder / "whole.yaml"
    adjacency = dice.choice(["add-remove", "replace-one"])
    path.write_bytes(spoilt_text(dice, f"adjacency: {adjacency}\nmechanisms:\n  - {entry}\n"))
    whole.write_text("include: [part.yaml]\n")
    return [words[0], str(whole if words[0] == "compose" and dice.random() < 0.3 else path), *words[1:]]


_COLUMNS = (
    ("step,id,norm,sigma", "0,a,1,4\n0,b,0.5,4\n1,a,1,5\n", "--filter gdp --mu 1"),
    ("step,epsilon,delta", "0,0.1,1e-9\n1,0.2,0\n", "--scope global --filter dp --epsilon 1 --delta 1e-6"),
    ("step,rho,order", "0,0.1,2\n0,0.2,4\n1,0.1,2\n1,0.2,4\n", "--scope global --filter rdp --epsilon 3 --delta 1e-6"),
    ("mu", "0.1\n0.2\n0.4\n", "--scope global --filter gdp --mu 1"),
    ("step,id,epsilon", "0,a,0.1\n0,b,0.2\n1,a,0.3\n", "--filter dp --epsilon 1 --delta 1e-6"),
)


def columns_log(dice: random.Random, folder: Path) -> list[str]:
    """Logs with further columns, and of whole runs."""
    header, rows, options = dice.choice(_COLUMNS)
    path = folder / "log.csv"
    path.write_bytes(spoilt_text(dice, f"{header}\n{rows}"))
    return ["filter", str(path), *options.split(), *(["--finished"] if dice.random() < 0.3 else [])]


def opacus_history(dice: random.Random, folder: Path) -> list[str]:
    path = folder / "history.json"
    path.write_bytes(spoilt_text(dice, '{"history": [[1.1, 0.004, 500], [1.3, 0.004, 20]], "mechanism": "rdp"}'))
    return ["compose", str(path), "--delta", "1e-5"]


def schedule(dice: random.Random, folder: Path) -> list[str]:
    path = folder / "schedule.csv"
    path.write_bytes(spoilt_text(dice, "step,lr,sigma\n1,0.1,1\n5,0.05,2\n"))
    command = "sgd-bound --algorithm gd --sensitivity 1 --n 100 --steps 9 --smoothness 1 --delta 1e-5 --schedule"
    return [*command.split(), str(path)]
