"""Hints, and nothing but hints: which grids, moves and cuts should make an interval narrow. No bound needs them."""
