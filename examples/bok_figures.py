"""Figures 1 and 6 to 10 of Bok, Su and Altschuler (ICML 2024), redrawn from dpcalc's functions.

python examples/bok_figures.py [FOLDER]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpcalc.conversions import gdp_epsilon, gdp_tradeoff, zcdp_epsilon
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
    figure.savefig(path, dpi=130)


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


def convergence(axes: Any, lengths: list[int], ours: list[float], composed: list[float]) -> None:
    for delta in (1e-3, 1e-5):
        axes.plot(lengths, [gdp_epsilon(mu, delta) for mu in ours], "+-", label=f"ours, δ = {delta:g}")
        axes.plot(lengths, [gdp_epsilon(mu, delta) for mu in composed], "+--", label=f"composition, δ = {delta:g}")


def figure_6(folder: Path) -> None:
    figure, left, right = pair()
    for t in (10, 100, 1000):
        tradeoff(left, gradient_descent.strongly_convex(full(t, strong_convexity=0.01)).mu, f"Theorem 4.2, t = {t}")
    for t in (10, 100, 1000):
        tradeoff(left, gradient_descent.composition(full(t, strong_convexity=0.01)).mu, f"composition, t = {t}", "--")
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
    tradeoff(left, gradient_descent.constrained(full(80, **run)).mu, "Theorem 4.3, t ≥ 80")
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
        tradeoff(left, cyclic.composition(cycle(epochs, strong_convexity=0.01)).mu, f"composition, E = {epochs}", "--")
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
    for row, rate in zip(grid, (0.0025, 0.005, 0.01, 0.02, 0.04), strict=True):
        for axes, over_b in zip(row, (0.125, 0.25, 0.5, 1.0, 2.0), strict=True):
            per_step = central_limit_mu(2 * math.sqrt(10) / 3 * over_b / 3, rate, 1)
            for eta in (0.2, 0.1, 0.05):
                mu = np.sqrt(10 / (eta * 3) ** 2 / unrolled + per_step**2 * unrolled).min()
                tradeoff(axes, float(mu), f"Theorem 4.10, η = {eta}")
            for t in (5000, 20000, 80000):
                tradeoff(axes, central_limit_mu(over_b / 3, rate, t), f"composition, t = {t}", "--")
            axes.set_title(f"b/n = {rate}, L/b = {over_b}", fontsize=8)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(folder / "figure-10.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="bok-figures", type=Path, help="where the pictures go")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (figure_1, figure_6, figure_7, figure_8, figure_9, figure_10):
        draw(folder)
        print(f"{folder / draw.__name__.replace('_', '-')}.png")


if __name__ == "__main__":
    main()
