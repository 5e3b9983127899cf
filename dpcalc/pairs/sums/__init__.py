"""Means of independent likelihood ratios: what a record's loss is whose step of an epoch is drawn at random."""
