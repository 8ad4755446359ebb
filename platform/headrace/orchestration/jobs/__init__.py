"""Launched jobs: backfills, changes, limits, upkeep."""
