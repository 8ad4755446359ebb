"""Comparisons of a description, of a log's columns and of tables with those before."""
