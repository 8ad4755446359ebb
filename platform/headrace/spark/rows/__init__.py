"""Rows of any types: compared, converted, merged."""
