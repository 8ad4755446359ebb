"""A node's tables, and how their rows are read and delivered."""
