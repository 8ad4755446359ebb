"""Stretches of logs, and the rows of feeds that are read from them."""
