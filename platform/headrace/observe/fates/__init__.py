"""Records behind counts, and rows that sinks refused, by reason."""
