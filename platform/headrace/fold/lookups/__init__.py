"""The parts of lookups that other operators share: the latest versions, both sides as one line, waits (L21, L22)."""
