"""What a node holds, and how its rows are read and told."""
