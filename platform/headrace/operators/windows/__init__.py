"""Tumbling and hopping windows."""
