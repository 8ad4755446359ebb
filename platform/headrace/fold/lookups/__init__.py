"""The parts of lookups that other operators share: the latest versions, both sides as one line, and what waits (L21, L22)."""
