"""Leases of writers, and the requests of readers and people."""
