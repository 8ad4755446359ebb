"""The parts of a backfill: its plan, its comparison, and corrections of sinks."""
