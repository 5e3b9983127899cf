"""The transform of C_p of a Gaussian: fixed-size sampling under replace-one, both directions in one pair.

With h(x) = 1 - p + p exp(μx - μ²/2) and x ~ N(0, 1), losses above 0 are log h, those below mirror them, and the rest is
an atom at 0 (Bok et al., Proposition D.4). So, v = log h and all factors positive,

    E[e^{λL}] = 1 + ∫_{x > μ/2} (h^{1+λ} - h + h^{-λ} - 1) φ(x) dx = 1 + ∫ (1 - e^{-λv}) (e^{(1+λ)v} - 1) φ(x) dx.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.subsampled_gaussian import log_density_ratio

_MOST_PANELS = 4_000
_BEYOND = 12.0  # standard deviations to integrate beyond every maximum


def log_mgf(exponents: Floats, mu: float, rate: float) -> Floats:
    """log E[e^{λL}] at real λ > 0, to about 1e-12 of its value and the cut-off tail added; inf where it would be long.

    Gauss's rule on panels of at most half a standard deviation and a third of the distance to the zeros of h, where the
    integrand stops being analytic. At x the logarithm of h^{1+λ}φ rises by at most (1+λ)μ - x, so all maxima are
    before (1+λ)μ and the tail beyond X is at most its value there over X - (1+λ)μ.
    """
    return np.array([_log_mgf(float(exponent), mu, rate) for exponent in exponents.ravel()]).reshape(exponents.shape)


@cache
def _gauss() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(16)


def _log_mgf(exponent: float, mu: float, rate: float) -> float:
    end = (1 + exponent) * mu + _BEYOND
    width = min(0.5, 1 / mu)
    panels = (end - mu / 2) / width
    if not panels <= _MOST_PANELS:
        return float("inf")
    half = (end - mu / 2) / (2 * int(np.ceil(panels)))
    centres = mu / 2 + half * (2 * np.arange(int(np.ceil(panels))) + 1)
    places, weights = _gauss()
    nodes = (centres[:, None] + half * places).ravel()
    ratio = np.maximum(log_density_ratio(np.append(nodes, end), 1 / mu, rate), 0.0)
    v, at_end = ratio[:-1], float(ratio[-1])
    with np.errstate(divide="ignore"):
        terms = (1 + exponent) * v + np.log(-np.expm1(-exponent * v)) + np.log(-np.expm1(-(1 + exponent) * v))
    terms += np.tile(np.log(half * weights), len(centres)) - nodes * nodes / 2
    tail = (1 + exponent) * at_end - end * end / 2 - np.log(_BEYOND)
    top = max(float(terms.max()), tail)
    total = top + np.log(np.exp(terms - top).sum() + np.exp(tail - top)) - np.log(2 * np.pi) / 2
    return float(np.logaddexp(0.0, total)) if total > 0 else float(np.log1p(np.exp(total)))
