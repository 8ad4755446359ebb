"""Rows for sinks: delivered, delivered again, put right."""
