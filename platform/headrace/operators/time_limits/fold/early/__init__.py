"""The steps of a time limit with `emit_early`: bounds make entries leave before their time."""
