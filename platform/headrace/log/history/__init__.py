"""A log's past: its chain, its cuts, its writings, and columns that it has gained."""
