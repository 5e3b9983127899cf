"""Tables 1, 3, 4 and 7 to 12 of Bok, Su and Altschuler (ICML 2024) beside dpcalc's numbers.

    python examples/bok_tables.py

A cell reads "printed → ours"; where ours does not round to what is printed it has ≠ and the difference, and is
explained below. The last lines say in which tables that is so.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import bok_published as paper
from rich.console import Console
from rich.table import Table

from dpcalc.conversions import gdp_epsilon, zcdp_epsilon
from dpcalc.last_iterate import cyclic, gradient_descent
from dpcalc.last_iterate.analysis import Analysis, analyse
from dpcalc.last_iterate.request import Request
from dpcalc.last_iterate.setting import Setting

console = Console(width=200, highlight=False)
differences: dict[str, int] = {}


def cell(printed: float, ours: float, digits: int) -> str:
    """The printed number and ours, with the difference if ours does not round to what is printed."""
    text = f"{printed:.{digits}f} → {ours:.{digits}f}"
    return text if abs(ours - printed) <= 0.501 * 10**-digits else f"≠ {text} ({ours - printed:+.{digits}f})"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    table = Table(title=title, title_justify="left", caption=note or None, caption_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    differences[title.partition(":")[0]] = sum(text.count("≠") for row in rows for text in row)


def logistic(algorithm: str, epochs: int, m: float) -> Analysis:
    return analyse(
        Request(
            algorithm=algorithm,  # type: ignore[arg-type]
            epochs=epochs,
            strong_convexity=m,
            smoothness=paper.SMOOTHNESS,
            **paper.LOGISTIC,
        ),
        tolerance=1e-6,
    )


def logistic_tables() -> None:
    rows_1, rows_3, rows_4 = [], [], []
    for epochs in paper.TABLE_1:
        runs = [logistic("cgd", epochs, m) for m in paper.REGULARISATIONS]
        stochastic = logistic("sgd", epochs, paper.REGULARISATIONS[0])
        composed = cyclic.composition(runs[0].setting).mu
        prior = [zcdp_epsilon(float(cyclic.prior_rdp(run.setting).rho or 0), 1e-5) for run in runs]
        ours = [run.epsilon for run in runs]
        printed = paper.TABLE_1[epochs]
        values = (gdp_epsilon(composed, 1e-5), prior[0], ours[0])
        rows_1.append([str(epochs), *(cell(p, v, 2) for p, v in zip(printed, values, strict=True))])
        mu_c, mu_s, mus = paper.TABLE_3[epochs]
        best = [float(run.best.guarantee.mu or 0) for run in runs]
        clt = stochastic.details()["clt"]["mu"]
        rows_3.append([str(epochs), cell(mu_c, composed, 2), cell(mu_s, clt, 2), *map(cell, mus, best, (2, 2))])
        eps_c, eps_s, eps_prior, eps_ours = paper.TABLE_4[epochs]
        rows_4.append(
            [str(epochs), cell(eps_c, gdp_epsilon(composed, 1e-5), 2), cell(eps_s, stochastic.epsilon, 2)]
            + [cell(p, v, 2) for p, v in zip(eps_prior, prior, strict=True)]
            + [cell(p, v, 2) for p, v in zip(eps_ours, ours, strict=True)]
        )
    show("Table 1: ε of NoisyCGD, δ = 1e-5", ("epochs", "GDP composition", "RDP", "Theorem 4.5"), rows_1)
    show(
        "Table 3: μ",
        ("epochs", "composition cgd", "composition sgd (CLT)", "ours λ=.002", "ours λ=.004"),
        rows_3,
        "The sgd column is the central limit approximation; dpcalc shows it as approximate and never certifies it.",
    )
    columns = ("epochs", "composition cgd", "composition sgd", "RDP λ=.002", "RDP λ=.004", "ours λ=.002", "ours λ=.004")
    show("Table 4: ε, δ = 1e-5", columns, rows_4, "sgd: certified, to a relative 1e-6.")


def gradient_descent_tables() -> None:
    def strongly(c: float, t: int) -> Setting:
        return Setting(
            algorithm="gd",
            learning_rate=1,
            sigma=1,
            sensitivity=0.1,
            dataset_size=1,
            steps=t,
            strong_convexity=1 - c,
            smoothness=1,
        )

    rows = []
    for t, (composed, ours) in paper.TABLE_7.items():
        values = [gradient_descent.strongly_convex(strongly(c, t)).mu for c in paper.TABLE_7_CONTRACTIONS]
        cells = [cell(p, v, 3) for p, v in zip(ours, values, strict=True)]
        rows.append([str(t), cell(composed, gradient_descent.composition(strongly(0.99, t)).mu, 3), *cells])
    columns = ("t", "composition", *(f"c = {c}" for c in paper.TABLE_7_CONTRACTIONS))
    show("Table 7: μ of NoisyGD, L/(nσ) = 0.1", columns, rows)

    rows = []
    for over_n, row in paper.TABLE_8.items():
        cells = []
        for rate, (steps, mu) in zip(paper.TABLE_8_RATES, row, strict=True):
            bound = gradient_descent.constrained(
                Setting(
                    algorithm="gd",
                    learning_rate=rate,
                    sigma=8,
                    sensitivity=over_n,
                    dataset_size=1,
                    steps=10**6,
                    diameter=1,
                    smoothness=1,
                )
            ).mu
            cells.append(f"{cell(steps, math.ceil(round((bound * 8 / over_n) ** 2, 6)), 0)}, {cell(mu, bound, 3)}")
        rows.append([str(over_n), *cells])
    show("Table 8: (t*, μ*) of NoisyGD, σ = 8, D = 1", ("L/n", *(f"η = {r}" for r in paper.TABLE_8_RATES)), rows)


def cyclic_tables() -> None:
    def cycle(batches: int, epochs: int, **rest: float) -> Setting:
        values = {"learning_rate": 1.0, "sigma": 1.0, "sensitivity": 0.2, "smoothness": 1.0} | rest
        return Setting(algorithm="cgd", dataset_size=batches, batch_size=1, steps=batches * epochs, **values)  # type: ignore[arg-type]

    rows = []
    for epochs, (composed, ours) in paper.TABLE_9.items():
        settings = [cycle(batches, epochs, strong_convexity=1 - c) for batches, c in paper.TABLE_9_COLUMNS]
        values = [cyclic.strongly_convex(setting).mu for setting in settings]
        cells = [cell(p, v, 3) for p, v in zip(ours, values, strict=True)]
        rows.append([str(epochs), cell(composed, cyclic.composition(settings[0]).mu, 3), *cells])
    columns = ("E", "composition", *(f"l={batches} c={c}" for batches, c in paper.TABLE_9_COLUMNS))
    show("Table 9: μ of NoisyCGD, L/(bσ) = 0.2", columns, rows)

    for number, (batches, table) in enumerate(paper.TABLES_10_TO_12.items(), start=10):
        rows = []
        for over_b, row in table.items():
            cells = []
            for rate, (epochs, mu) in zip(paper.TABLES_10_TO_12_RATES, row, strict=True):
                setting = cycle(batches, 10_000, learning_rate=rate, sigma=3.0, sensitivity=over_b, diameter=1.0)
                bound = cyclic.constrained(setting)
                assert bound is not None
                sharper = cyclic.best_shifts(setting).mu
                reached = math.ceil(round((bound.mu * 3 / over_b) ** 2, 6))
                cells.append(f"{cell(epochs, reached, 0)}, {cell(mu, bound.mu, 3)}, best shifts {sharper:.3f}")
            rows.append([str(over_b), *cells])
        note = (
            "E*, the epochs at which composition reaches μ*, is ⌈(3a/(ηl) + a² + a²/l·⌈D/(ηa)⌉)/a²⌉, a = L/b.\n"
            "The paper's script has mu**2 * mu**2 / l where the bound has mu**2 + mu**2 / l; μ* itself is right.\n"
            "Best shifts: the optimum of Theorem C.3, which starts right after a use and is a little below Theorem 4.6."
        )
        columns = ("L/b", *(f"η = {r}" for r in paper.TABLES_10_TO_12_RATES))
        show(f"Table {number}: (E*, μ*) of NoisyCGD, l = {batches}, σ = 3, D = 1", columns, rows, note)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    logistic_tables()
    gradient_descent_tables()
    cyclic_tables()
    for title, count in differences.items():
        if count:
            console.print(f"{title}: {count} printed numbers differ")


if __name__ == "__main__":
    main()
