"""The checks, each with its claim."""
