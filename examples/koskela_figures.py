"""Koskela et al., Figures 3 to 5: what Gaussian DP saves against Rényi DP for full-batch training.

    python examples/koskela_figures.py [--folder FOLDER]

Nothing is trained: σ = 100 and k steps are k/(2σ²)-zCDP and √k/σ-GDP (Appendix C.4). RDP is converted by the best order
of Canonne et al. (Lemma C.4), as in the paper; GDP exactly. The paper prints three numbers, which stand beside ours;
the curves go to FOLDER as a picture.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from tables import header, row

from dpcalc.conversions import gdp_epsilon, zcdp_epsilon

SIGMA, STEPS, DELTA = 100.0, 420, 1e-5


def by_rdp(steps: float, delta: float = DELTA) -> float:
    return float(zcdp_epsilon(steps / (2 * SIGMA**2), delta))


def by_gdp(steps: float, delta: float = DELTA) -> float:
    return float(gdp_epsilon(math.sqrt(steps) / SIGMA, delta))


def most_steps(epsilon: float, spent: Any) -> int:
    """The largest number of steps that costs at most ε."""
    low, high = 0, 1
    while spent(high) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    return low


def numbers() -> list[tuple[str, float, float]]:
    """What the text of Appendix C.4 prints, and ours: name, paper, ours."""
    rdp, gdp = by_rdp(STEPS), by_gdp(STEPS)
    return [
        (f"ε of {STEPS} steps by RDP", 0.8, rdp),
        ("steps by GDP for that ε", 495, most_steps(rdp, by_gdp)),
        ("ε saved by GDP, percent", 10, 100 * (1 - gdp / rdp)),
    ]


def draw(folder: Path) -> None:
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    third, fourth, fifth = figure.subplots(1, 3)
    deltas, steps, epsilons = np.logspace(-9, -2, 30), np.arange(20, 1001, 20), np.linspace(0.2, 2, 19)
    for name, spent, style in (("RDP", by_rdp, "--"), ("GDP", by_gdp, "-")):
        third.plot([spent(STEPS, delta) for delta in deltas], deltas, style, label=name)
        fourth.plot(steps, [spent(k) for k in steps], style, label=name)
        fifth.plot(epsilons, [most_steps(epsilon, spent) for epsilon in epsilons], style, label=name)
    third.set(xlabel="ε", ylabel="δ", yscale="log", title=f"Figure 3: k = {STEPS}")
    fourth.set(xlabel="steps k", ylabel="ε", title="Figure 4: δ = 1e-5")
    fifth.set(xlabel="ε", ylabel="most steps k", title="Figure 5: δ = 1e-5")
    for axes in (third, fourth, fifth):
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(folder / "koskela-3-5.png", dpi=80)
    print(folder / "koskela-3-5.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the picture goes; none unless told")
    arguments = parser.parse_args()
    print(f"σ = {SIGMA:g}, δ = {DELTA:g}\n")
    print(header("Appendix C.4", "paper", "ours", "difference"))
    for name, paper, ours in numbers():
        print(row(name, paper, f"{ours:.4g}", f"{ours - paper:+.3g}"))
    print("\n" + header("steps", "ε by RDP", "ε by GDP"))
    for steps in (100, 200, STEPS, 600, 1000):
        print(row(steps, f"{by_rdp(steps):.4f}", f"{by_gdp(steps):.4f}"))
    print("\n" + header("ε", "most steps by RDP", "by GDP"))
    for epsilon in (0.25, 0.5, 0.8, 1.0, 2.0):
        print(row(epsilon, most_steps(epsilon, by_rdp), most_steps(epsilon, by_gdp)))
    if arguments.folder is not None:
        draw(arguments.folder)


if __name__ == "__main__":
    main()
