"""Commands that take care of a lake."""
