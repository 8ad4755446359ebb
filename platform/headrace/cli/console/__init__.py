"""Shared parts of commands: options, names, printing."""
