"""Real servers on this machine, as processes that end with their parent."""
