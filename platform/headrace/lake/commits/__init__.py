"""Commits of Delta tables: their files, their history, and the fence."""
