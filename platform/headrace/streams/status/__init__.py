"""The state of queries, for people and metrics."""
