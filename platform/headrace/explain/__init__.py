"""Why is this number what it is: recompute a scope of a node by its oracle, compare, explain. It writes nothing."""
