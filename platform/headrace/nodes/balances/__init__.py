"""Opening balances: the state of a node at the cut of a log."""
