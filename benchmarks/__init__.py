"""Measurements, each from a run whose result was checked first: a wrong result has no speed."""
