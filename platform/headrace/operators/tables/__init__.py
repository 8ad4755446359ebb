"""Tables: the latest row of each key."""
