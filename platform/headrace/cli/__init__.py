"""The command line."""

from headrace.cli.commands import app, main

__all__ = ["app", "main"]
