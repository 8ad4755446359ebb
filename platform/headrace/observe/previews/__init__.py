"""A description run over the newest records of its topics."""
