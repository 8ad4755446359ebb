"""Rows of a node's tables, state and logs, as frames of Spark and as tables of Arrow."""
