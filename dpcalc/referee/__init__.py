"""A second opinion in ball arithmetic: results recomputed by code that shares nothing with the accountants.

Every number is a ball that contains the true one (Arb, through python-flint), so nothing here has an error ledger: what
the balls leave undecided is said to be undecided. It reads the JSON of a result and nothing else of the package.
"""
