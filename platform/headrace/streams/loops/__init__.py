"""The loops of logs and nodes, opened again after a failure."""
