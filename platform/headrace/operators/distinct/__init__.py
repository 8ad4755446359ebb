"""Distinct records: the first of each id."""
