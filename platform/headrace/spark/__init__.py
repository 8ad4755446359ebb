"""The one place that knows Spark sessions, Delta tables and small atomic files."""
