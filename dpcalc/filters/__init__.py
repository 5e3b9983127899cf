"""Fully adaptive composition: filters, odometers and individual accounting (Feldman–Zrnic; Koskela et al.)."""
