"""What exists: the pipelines as descriptions."""
