"""Asset checks: which there are, when they run, and their newest verdicts."""
