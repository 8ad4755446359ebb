"""Lookups: each record of a stream with the row that a table had for it."""
