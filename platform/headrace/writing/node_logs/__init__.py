"""The log of a node: its rows as records, and their times."""
