"""Names of nodes in a lake, the descriptions that wrote them, and their topics."""
