"""Processors: a user's class is called for the records and timers of each group."""
