"""What is done to a node besides streaming: backfill, rebuild, retention, erasure, maintenance, changed limits."""
