"""The proof: laws of X = dP/dQ on nested grids, and stages that map certified laws to certified laws.

*discretise* → *compose* (products, or sums) → *coarsen* → *read*. Whatever grids, moves and cuts a caller asks for, the
interval that is read contains the truth; docs/certificate.md has the lemmas. Nothing here looks at a tolerance.
"""
