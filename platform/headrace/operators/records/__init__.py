"""Named streams: each record by itself."""
