"""Decisions that a log records: of people, of guards, of its topic."""
