"""Logs that have lost something, or are made anew: from Kafka, or from the bytes that they keep."""
