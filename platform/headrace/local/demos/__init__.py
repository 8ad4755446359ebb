"""The demos: with everything on, and once without a UI."""
