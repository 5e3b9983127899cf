"""Figures 1, 2, 4 and 6 to 10 of Bok, Su and Altschuler (ICML 2024), redrawn from dpcalc's functions.

    python examples/bok_figures.py [FOLDER] [--figures 1 2 4 6 7 8 9 10]

Figures 3 and 5 are sketches of proofs. Where the paper prints numbers of what a figure shows (Tables 7, 8, 9 and 11,
and the points at which the curves of Figure 4 touch), they are printed beside ours.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import bok_published as paper
import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr
from tables import header, row

from dpcalc.conversions import dp_true_positive_rate, gdp_epsilon, gdp_tradeoff, zcdp_epsilon
from dpcalc.last_iterate import cyclic, gradient_descent
from dpcalc.last_iterate.setting import Setting
from dpcalc.last_iterate.stochastic import central_limit_mu

ERRORS = np.linspace(1e-6, 1 - 1e-6, 400)


def full(t: int, **losses: Any) -> Setting:
    values = {"learning_rate": 1.0, "sigma": 1.0, "sensitivity": 0.1, "smoothness": 1.0} | losses
    return Setting(algorithm="gd", dataset_size=1, steps=t, **values)


def cycle(epochs: int, batches: int = 20, **losses: Any) -> Setting:
    values = {"learning_rate": 1.0, "sigma": 1.0, "sensitivity": 0.2, "smoothness": 1.0} | losses
    return Setting(algorithm="cgd", dataset_size=batches, batch_size=1, steps=epochs * batches, **values)


def tradeoff(axes: Any, mu: float, label: str, style: str = "-") -> None:
    """Type II against type I error: 1 - TPR."""
    axes.plot(ERRORS, [1 - float(gdp_tradeoff(mu, x)) for x in ERRORS], style, label=label)


def finish(figure: Figure, left: Any, right: Any, x_label: str, path: Path) -> None:
    left.set(xlabel="Type I error", ylabel="Type II error")
    right.set(xlabel=x_label, ylabel="ε", xscale="log")
    for axes in (left, right):
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=80)


def pair() -> tuple[Figure, Any, Any]:
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    return figure, left, right


def figure_1(folder: Path) -> None:
    figure, left, right = pair()
    steps = [10, 20, 40, 80, 160]
    settings = [full(t, learning_rate=0.05, strong_convexity=1.0, smoothness=10.0) for t in steps]
    ours = [gradient_descent.strongly_convex(s).mu for s in settings]
    composed = [gradient_descent.composition(s).mu for s in settings]
    tradeoff(left, 0.0, "perfect privacy", ":")
    tradeoff(left, ours[-1], "Theorem 4.2 (optimal), t = 160")
    tradeoff(left, composed[-1], "composition, t = 160", "--")
    tradeoff(left, 10.0, "no privacy", ":")
    right.plot(steps, [gdp_epsilon(mu, 1e-5) for mu in ours], "+-", label="f-DP bound (optimal)")
    right.plot(steps, [zcdp_epsilon(mu**2 / 2, 1e-5) for mu in ours], "+-", label="its RDP")
    prior = [zcdp_epsilon(float(gradient_descent.prior_rdp(s).rho or 0), 1e-5) for s in settings]
    right.plot(steps, prior, "+-", label="prior RDP bound")
    right.plot(steps, [gdp_epsilon(mu, 1e-5) for mu in composed], "+--", label="composition")
    finish(figure, left, right, "iterations t, δ = 1e-5", folder / "figure-1.png")


def figure_2(folder: Path) -> None:
    """A mechanism that is 1-GDP but not 0.5-GDP: here 0.7-DP, whose curve lies between both."""
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    for mu in (0.0, 0.5, 1.0, 2.0, 6.0):
        tradeoff(axes, mu, f"G({mu:g})", ":" if mu in (0, 6) else "-")
    mechanism = np.array([1 - float(dp_true_positive_rate(0.7, 0.0, x)) for x in ERRORS])
    axes.plot(ERRORS, mechanism, "k--", label="a mechanism: 0.7-DP")
    axes.set(xlabel="Type I error", ylabel="Type II error")
    axes.legend(fontsize=7)
    figure.savefig(folder / "figure-2.png", dpi=80)
    for mu, said in ((1.0, "above"), (0.5, "not above")):
        curve = np.array([1 - float(gdp_tradeoff(mu, x)) for x in ERRORS])
        compare(
            2, f"the mechanism's curve against G({mu:g})", said, "above" if (mechanism >= curve).all() else "not above"
        )


def between(z: np.ndarray, weight: float, p: float, mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Type I and II errors of f^(λ), both records' gradients being (1-λ) and -λ of L apart (proof of Theorem 4.8)."""
    return 1 - (1 - p) * ndtr(z) - p * ndtr(z + (1 - weight) * mu), (1 - p) * ndtr(z) + p * ndtr(z - weight * mu)


def subsampled(alpha: np.ndarray, p: float, mu: float) -> np.ndarray:
    """C_p(G(μ)): f_p, its inverse, and the line of slope -1 between them (Definition 4.7)."""
    z = np.linspace(-12, 12, 200_001)
    first, second = between(z, 1.0, p, mu)
    order = np.argsort(first)
    curve = np.interp(alpha, first[order], second[order])
    inverse = np.interp(alpha, *between(z[::-1], 0.0, p, mu))
    line = (1 + p) * ndtr(-mu / 2) + (1 - p) * ndtr(mu / 2) - alpha
    return np.where(
        alpha <= ndtr(-mu / 2), curve, np.where(alpha >= p * ndtr(-mu / 2) + (1 - p) * ndtr(mu / 2), inverse, line)
    )


def figure_4(folder: Path) -> None:
    p, mu = 0.25, 2.5
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    z = np.linspace(-9, 9, 2001)
    for weight in (0.0, 0.5, 1.0):
        alpha, beta = between(z, weight, p, mu)
        axes.plot(alpha, beta, label=f"f^({weight:g})")
        touch = np.array([p * ndtr(-mu / 2) + (1 - p) * ndtr((0.5 - weight) * mu)])
        gap = beta - subsampled(alpha, p, mu)
        compare(
            4,
            f"f^({weight:g}) at its touching point, less C_p",
            0,
            f"{float(np.interp(touch[0], alpha[::-1], gap[::-1])):.1g}",
        )
        compare(4, f"f^({weight:g}) nowhere below C_p", "yes", "yes" if gap.min() > -1e-9 else f"{gap.min():.2g}")
    axes.plot(ERRORS, subsampled(ERRORS, p, mu), "k--", label="C_p(G(2.5)), p = 0.25")
    axes.set(xlabel="Type I error", ylabel="Type II error")
    axes.legend(fontsize=7)
    figure.savefig(folder / "figure-4.png", dpi=80)


def compare(figure: int, what: str, printed: object, ours: object) -> None:
    """A line of the table: what the paper prints of a figure, and what we find."""
    numbers = all(isinstance(value, (int, float)) for value in (printed, ours))
    print(row(figure, what, printed, f"{ours:.4g}" if numbers else ours, f"{ours - printed:+.2g}" if numbers else "–"))  # type: ignore[operator]


def convergence(axes: Any, lengths: list[int], ours: list[float], composed: list[float]) -> None:
    for delta in (1e-3, 1e-5):
        axes.plot(lengths, [gdp_epsilon(mu, delta) for mu in ours], "+-", label=f"ours, δ = {delta:g}")
        axes.plot(lengths, [gdp_epsilon(mu, delta) for mu in composed], "+--", label=f"composition, δ = {delta:g}")


def figure_6(folder: Path) -> None:
    figure, left, right = pair()
    for t in (10, 100, 1000):
        tradeoff(left, gradient_descent.strongly_convex(full(t, strong_convexity=0.01)).mu, f"Theorem 4.2, t = {t}")
    for t in (10, 100, 1000):
        composed = gradient_descent.composition(full(t, strong_convexity=0.01)).mu
        tradeoff(left, composed, f"composition, t = {t}", "--")
        printed, ours = paper.TABLE_7[t]
        place = paper.TABLE_7_CONTRACTIONS.index(0.99)
        compare(6, f"μ of composition, t = {t}", printed, composed)
        exact = gradient_descent.strongly_convex(full(t, strong_convexity=0.01)).mu
        compare(6, f"μ of Theorem 4.2, t = {t}", ours[place], exact)
    steps = [10, 20, 40, 80, 160, 320, 640]
    settings = [full(t, strong_convexity=0.01) for t in steps]
    ours = [gradient_descent.strongly_convex(s).mu for s in settings]
    convergence(right, steps, ours, [gradient_descent.composition(s).mu for s in settings])
    finish(figure, left, right, "iterations t, c = 0.99", folder / "figure-6.png")


def best(setting: Setting) -> float:
    """The smallest μ of Theorem 4.3 or 4.6 and composition, as the paper plots it."""
    module = gradient_descent if setting.algorithm == "gd" else cyclic
    constrained = module.constrained(setting)
    composed = module.composition(setting).mu
    return composed if constrained is None else min(composed, constrained.mu)


def figure_7(folder: Path) -> None:
    figure, left, right = pair()
    run = {"learning_rate": 0.1, "sigma": 8.0, "sensitivity": 0.5, "diameter": 1.0}
    bound = gradient_descent.constrained(full(80, **run)).mu
    tradeoff(left, bound, "Theorem 4.3, t ≥ 80")
    compare(7, "μ* of Theorem 4.3", paper.TABLE_8[0.5][paper.TABLE_8_RATES.index(0.1)][1], bound)
    for t in (80, 160, 320):
        tradeoff(left, gradient_descent.composition(full(t, **run)).mu, f"composition, t = {t}", "--")
    steps = [10, 20, 40, 80, 160, 320, 640]
    settings = [full(t, **run) for t in steps]
    convergence(right, steps, [best(s) for s in settings], [gradient_descent.composition(s).mu for s in settings])
    finish(figure, left, right, "iterations t, L/n = 0.5, η = 0.1", folder / "figure-7.png")


def figure_8(folder: Path) -> None:
    figure, left, right = pair()
    for epochs in (5, 50, 500):
        tradeoff(left, cyclic.strongly_convex(cycle(epochs, strong_convexity=0.01)).mu, f"Theorem 4.5, E = {epochs}")
    for epochs in (5, 50, 500):
        composed = cyclic.composition(cycle(epochs, strong_convexity=0.01)).mu
        tradeoff(left, composed, f"composition, E = {epochs}", "--")
        printed, bounds = paper.TABLE_9[epochs]
        compare(8, f"μ of composition, E = {epochs}", printed, composed)
        found = cyclic.strongly_convex(cycle(epochs, strong_convexity=0.01)).mu
        compare(8, f"μ of Theorem 4.5, E = {epochs}", bounds[paper.TABLE_9_COLUMNS.index((20, 0.99))], found)
    lengths = [5, 10, 20, 40, 80, 160, 320]
    settings = [cycle(epochs, strong_convexity=0.01) for epochs in lengths]
    ours = [cyclic.strongly_convex(s).mu for s in settings]
    convergence(right, lengths, ours, [cyclic.composition(s).mu for s in settings])
    finish(figure, left, right, "epochs E, c = 0.99, l = 20", folder / "figure-8.png")


def figure_9(folder: Path) -> None:
    figure, left, right = pair()
    run = {"learning_rate": 0.02, "sigma": 3.0, "sensitivity": 0.5, "diameter": 1.0}
    longest = cyclic.constrained(cycle(1000, **run))
    assert longest is not None
    tradeoff(left, longest.mu, "Theorem 4.6, E ≥ 100")
    printed = paper.TABLES_10_TO_12[20][0.5][paper.TABLES_10_TO_12_RATES.index(0.02)]
    compare(9, "μ* of Theorem 4.6", printed[1], longest.mu)
    for epochs in (25, 50, 100):
        tradeoff(left, cyclic.composition(cycle(epochs, **run)).mu, f"composition, E = {epochs}", "--")
    lengths = [5, 10, 20, 40, 80, 160, 320]
    settings = [cycle(epochs, **run) for epochs in lengths]
    convergence(right, lengths, [best(s) for s in settings], [cyclic.composition(s).mu for s in settings])
    sharper = [gdp_epsilon(min(b.mu for b in cyclic.bounds(s)), 1e-5) for s in settings]
    right.plot(lengths, sharper, "k.-", label="best shifts (Theorem C.3), δ = 1e-05")
    finish(figure, left, right, "epochs E, l = 20, L/b = 0.5, η = 0.02", folder / "figure-9.png")


def figure_10(folder: Path) -> None:
    """As in the paper: compositions by the central limit theorem (approximate), split (√10, √10/3), σ = 3, D = 1."""
    figure = Figure(figsize=(13, 12), layout="constrained")
    grid = figure.subplots(5, 5, sharex=True, sharey=True)
    unrolled = np.arange(100, 5000, 100)
    for line, rate in zip(grid, (0.0025, 0.005, 0.01, 0.02, 0.04), strict=True):
        for axes, over_b in zip(line, (0.125, 0.25, 0.5, 1.0, 2.0), strict=True):
            per_step = central_limit_mu(2 * math.sqrt(10) / 3 * over_b / 3, rate, 1)
            for eta in (0.2, 0.1, 0.05):
                mu = np.sqrt(10 / (eta * 3) ** 2 / unrolled + per_step**2 * unrolled).min()
                tradeoff(axes, float(mu), f"Theorem 4.10, η = {eta}")
            for t in (5000, 20000, 80000):
                tradeoff(axes, central_limit_mu(over_b / 3, rate, t), f"composition, t = {t}", "--")
            axes.set_title(f"b/n = {rate}, L/b = {over_b}", fontsize=8)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(folder / "figure-10.png", dpi=60)


FIGURES = {1: figure_1, 2: figure_2, 4: figure_4, 6: figure_6, 7: figure_7, 8: figure_8, 9: figure_9, 10: figure_10}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="bok-figures", type=Path, help="where the pictures go")
    parser.add_argument("--figures", type=int, nargs="+", default=list(FIGURES), choices=list(FIGURES))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(header("figure", "what it shows", "paper", "ours", "difference"))
    for number in arguments.figures:
        FIGURES[number](arguments.folder)
    print("\n" + "\n".join(str(arguments.folder / f"figure-{number}.png") for number in arguments.figures))


if __name__ == "__main__":
    main()
