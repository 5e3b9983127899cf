"""dpcalc: certified differential privacy accounting."""

from dpcalc.version import __version__

__all__ = ["__version__"]
