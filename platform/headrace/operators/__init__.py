"""Operators: folds of the log, as verbs on DataFrames. None of them knows how the log was cut."""
