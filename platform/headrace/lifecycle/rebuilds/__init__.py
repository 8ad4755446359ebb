"""New tables of a node: folded beside the old ones, and put in their place."""
