"""Guarantees that someone else vouches for, as mechanisms and as statements from which others follow."""

from dpcalc.mechanisms.declared.approximate import DeclaredDP, ReplacedDP
from dpcalc.mechanisms.declared.base import Declared
from dpcalc.mechanisms.declared.curve import RenyiCurve
from dpcalc.mechanisms.declared.gaussian import DeclaredGDP
from dpcalc.mechanisms.declared.renyi import DeclaredRDP, DeclaredZCDP, together

__all__ = [
    "Declared",
    "DeclaredDP",
    "DeclaredGDP",
    "DeclaredRDP",
    "DeclaredZCDP",
    "RenyiCurve",
    "ReplacedDP",
    "together",
]
