"""Merged branches of one topic: each record on each side."""
