"""Joins of tables, groups of tables, and tables after steps."""
