"""Runs descriptions: commits in order, streams, backfills, leases. One function serves all of them."""
