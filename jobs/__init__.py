"""What runs: the code location that Dagster loads."""
