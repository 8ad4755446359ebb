"""Alerts, and the channels that they go to."""
