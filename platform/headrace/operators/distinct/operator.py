"""Distinct records: the first record of each id."""

from __future__ import annotations

from headrace.description.distinct import Distinct
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Appended, Bindings
from headrace.operators.distinct.fold import FirstRecords


class DistinctRecords(Appended[Distinct]):
    """One row for each record whose id has not passed before.

    Written: `distinct`
    Law (L41): A record r is late if e(r) + grace <= s(r). Else it is a duplicate if a record before it in the log's
    order passed, has its id, and lies less than `within` from it in event time. Else it passes.
    Source: Kafka Streams, KIP-655 (`distinct`), made definite by the log.
    Guide: distinct
    """

    can_be_late = True  # the record of its id that passed may be forgotten

    @property
    def group(self) -> tuple[str, ...]:
        """The columns of an id."""
        return self.node.by

    @property
    def lateness(self) -> tuple[str, int | None]:
        """The grace."""
        return "grace", self.node.grace_ms

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.distinct.fold`."""
        return FirstRecords.of(self.node)
