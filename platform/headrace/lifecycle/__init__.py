"""Work on a node besides streaming: backfill, rebuild, retention, erasure, maintenance, changed limits."""
