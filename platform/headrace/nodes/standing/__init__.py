"""Progress and waits of logs and nodes, by their commits."""
