"""Values of Arrow columns: their bytes, exact numbers, JSON texts."""
