"""Events of assets: what runs report of logs, queries and tables."""
