"""Joins of two streams."""

from __future__ import annotations

from headrace.description import StreamJoin
from headrace.description.feeds import LEFT, RIGHT
from headrace.description.join import INNER
from headrace.fold.kernel import Kernel
from headrace.operators.claims import OF_PAIRS, UNMATCHED
from headrace.operators.contract import POSITION, Appended, Bindings, Unmatched
from headrace.operators.stream_joins import fold
from headrace.operators.stream_joins.fold.both_sides import SIDE
from headrace.operators.stream_joins.fold.join_records import PARTNER


class StreamJoins(Appended[StreamJoin]):
    """One row for each pair, and for each record that leaves alone; both sides drive.

    Written: `join` of streams
    Law (L33): A pair leaves once, at its later record. A record without a partner leaves when stream time has passed
    its time, `within` (or `before` and `after`) and `grace`. A row's clock is the higher one of its pair; of a record
    alone, its deadline.
    Source: Kafka Streams, `JoinWindows`, KIP-633.
    Guide: tables
    """

    order = (*POSITION, *PARTNER, SIDE)  # by the record of the later commit, then by the other one

    # The records of the pair, in whichever order: commits decide which of them stands first
    cause = (*POSITION, *PARTNER, SIDE)

    can_be_late = True  # records that would be its partners may have left

    @property
    def lateness(self) -> tuple[str, int | None]:
        """The grace."""
        return "grace", self.node.grace_ms

    checks = OF_PAIRS  # rows are unique, and few records are late

    @property
    def unmatched(self) -> Unmatched | None:
        """Rows of records that left alone."""
        if self.node.how == INNER:
            return None
        return Unmatched(
            UNMATCHED,
            PARTNER[:1],
            frozenset(),
            ("a record without a partner", "records without a partner"),
            ("row", "rows"),
            "what delays the partners, give {name} a longer time",
        )

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.stream_joins.fold`."""
        return fold.StreamJoins.of(self.node, of.inputs[LEFT], of.inputs[RIGHT])
