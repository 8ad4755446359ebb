"""The one writer of a node or log: its lease, the order of its commits, its upkeep."""
