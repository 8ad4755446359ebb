"""Batches: records of a group, gathered by number, bytes and wall-clock time."""
