"""Named streams: each record by itself."""

from __future__ import annotations

from headrace.description import NamedStream
from headrace.fold.contract import CLOCK
from headrace.operators.contract import Appended, RowClock


class Records(Appended[NamedStream]):
    """One row for each record."""

    @property
    def clock(self) -> RowClock:
        """That of the record."""
        return RowClock(CLOCK)
