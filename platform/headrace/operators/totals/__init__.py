"""Totals: an aggregate of each group."""
