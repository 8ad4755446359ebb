"""Merged branches of one topic: each record on each side that lets it pass."""

from __future__ import annotations

from headrace.description.merged import Merged
from headrace.fold.kernel import Kernel
from headrace.fold.records import ELEMENT
from headrace.operators.contract import POSITION, Appended, Bindings
from headrace.operators.merges.fold import MergedRecords


class Merges(Appended[Merged]):
    """One row for each record and side: a record on both sides has two, told apart by the number of the side.

    Written: `merge` of branches of one topic
    Law: A record has a row for each side that lets it pass, and the sides decide by its own row. It is refused if no
    side does.
    Source: Kafka Streams, `KStream.merge`.
    Guide: chains
    """

    order = (*POSITION, ELEMENT)  # by the record, then by the side

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.merges.fold`."""
        return MergedRecords.of(self.node, of.inputs)
