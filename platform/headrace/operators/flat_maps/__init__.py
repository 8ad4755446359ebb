"""Flat maps: each element of a record's array as a row."""
