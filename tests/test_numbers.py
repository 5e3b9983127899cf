"""Numbers as they were written: steps of epochs are the same wherever they are counted."""

from fractions import Fraction

import pytest

from dpcalc.numbers import exact, steps_of_epochs
from dpcalc.training.settings import Settings


@pytest.mark.parametrize(
    ("epochs", "records", "batch", "steps"),
    [
        (1.1, 50_000, 250, 220),
        (2.3, 60_000, 600, 230),
        (0.7, 7_000, 10, 490),
        (0.29, 100, 1, 29),
        (1.1000001, 50_000, 250, 221),
        (1, 1000, 300, 4),
        (5 / 7, 700, 1, 500),
        (1 / 3, 300, 1, 100),
        (Fraction(1, 3), 900, 3, 100),
        (1, 1, 0.01, 100),
    ],
)
def test_steps_of_epochs_are_those_of_the_decimals_written(epochs, records, batch, steps):
    assert steps_of_epochs(epochs, records, batch) == steps


@pytest.mark.parametrize(
    ("value", "meant"),
    [(1.1, Fraction(11, 10)), (1e-7, Fraction(1, 10**7)), (2 / 3, Fraction(2, 3)), (1e22, Fraction(10**22)), (0, 0)],
)
def test_a_float_stands_for_the_number_that_was_written(value, meant):
    assert exact(value) == meant


@pytest.mark.parametrize(("epochs", "steps"), [("1.1", 220), ("2.3", 460), ("0.145", 29)])
def test_every_command_counts_the_same_steps(dpcalc, epochs, steps):
    assert Settings(batch_size=250, epochs=float(epochs)).planned_steps(50_000) == steps
    entry = f"dp-sgd,noise_multiplier=30,sampling=poisson,batch_size=250,dataset_size=50000,epochs={epochs}"
    composed = dpcalc("compose", "-m", entry, "--delta", "1e-5", "-f", "json").json
    assert composed["mechanisms"][0]["count"] == steps
    run = ("--lr", ".1", "--sigma", "1", "--sensitivity", "1", "--n", "50000", "--batch-size", "250")
    convex = ("--strong-convexity", "1", "--smoothness", "1", "--delta", "1e-5", "-f", "json")
    bound = dpcalc("sgd-bound", "--algorithm", "sgd", *run, "--epochs", epochs, *convex).json
    assert bound["details"]["steps"] == steps
