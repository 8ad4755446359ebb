"""Decimals are computed with exactly. Python's own context rounds to 28 digits, and a DECIMAL has up to 38."""

from __future__ import annotations

from decimal import Context

DIGITS_MAX = 38  # of a DECIMAL
EXACT = Context(
    prec=3 * DIGITS_MAX
)  # for sums and differences of DECIMALs of any scale, and for their places
