"""dpcalc from Python: the commands as functions, entries of a spec as values, one type of result."""
