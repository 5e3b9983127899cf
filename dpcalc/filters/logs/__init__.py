"""Logs of norms, read as streams: arrays (steps × individuals) and long tables (step, id, norm)."""
