"""Keys and values of each format, many at a time."""
