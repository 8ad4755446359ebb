"""The loops that keep logs and nodes going."""
