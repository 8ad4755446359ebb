"""Tables compared by their rows: a changed description, and a table of another system."""
