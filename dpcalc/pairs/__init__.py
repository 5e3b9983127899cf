"""Dominating pairs: what a mechanism does to two neighbouring data sets, at worst."""
