"""Joins of two streams."""

from __future__ import annotations

from headrace.description import StreamJoin
from headrace.description.feeds import LEFT, RIGHT
from headrace.description.join import INNER
from headrace.fold.kernel import Kernel
from headrace.fold.lookups.sides import SIDE
from headrace.operators.claims import OF_PAIRS, UNMATCHED
from headrace.operators.contract import POSITION, Appended, Bindings, Unmatched
from headrace.operators.stream_joins import fold
from headrace.operators.stream_joins.fold.result_rows import PARTNER


class StreamJoins(Appended[StreamJoin]):
    """One row for each pair, and for each record that leaves alone; both sides drive.

    Written: `join` of streams
    Law (L33): A pair leaves once, at its later record. A record closes when the lowest stream time reaches its time plus
    `within` (or `before` or `after`) plus `grace`; if it has no partner then, it may leave alone. The clock of a pair is
    the higher one of its records; that of a record alone is the time at which it closes.
    Source: Kafka Streams, `JoinWindows`, KIP-633.
    Guide: tables
    """

    order = (*POSITION, *PARTNER, SIDE)  # by the later record of the pair, then by the earlier one

    # The records of the pair; `writing.causes` sorts them, since commits decide which of them is the later one
    cause = (*POSITION, *PARTNER, SIDE)

    can_be_late = True  # records that would be its partners may have left alone

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
