"""Tables: the latest row of each key."""

from __future__ import annotations

from headrace.description import Table
from headrace.operators.contract import OfNode


class Tables(OfNode[Table]):
    """One row per key, revised."""
