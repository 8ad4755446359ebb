"""The changes of a table, appended."""
