"""Named streams: each record by itself."""

from __future__ import annotations

from headrace.description import NamedStream
from headrace.operators.contract import Appended


class Records(Appended[NamedStream]):
    """One row for each record."""
