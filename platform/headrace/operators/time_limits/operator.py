"""Time limits: a key's value leaves once it has waited so long."""

from __future__ import annotations

from dataclasses import replace

from headrace.description import Suppressed
from headrace.description.clocks import WALL
from headrace.fold.contract import CLOCK, KEY, OFFSET, PARTITION
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Appended, Bindings, RowClock, Waits
from headrace.operators.registry import operator_for
from headrace.operators.time_limits.fold import TimeLimit


class TimeLimits(Appended[Suppressed]):
    """One row for each wait of a key that is over.

    Written: `suppress` of `hr.until_time_limit`
    Law (L19): A key's latest value leaves when its first update that has not left is `limit` of stream time old. Time
    is judged per partition and record; for joins, groups, sessions, sliding windows and regrouped keys, per change.
    With `clock="wall"` (L35) `ingested_at` takes the place of stream time, which the log has recorded.
    Source: Kafka Streams, `Suppressed.untilTimeLimit` (KIP-328).
    Guide: suppression
    """

    # By the record that ends the wait, then the one that began it: a wall-clock limit of 0 ends several at once
    order = (PARTITION, OFFSET, "__sub", "__opened_ms", KEY, "window_start", "__opened_offset")

    cause = (KEY, "window_start", "__opened_ms", PARTITION)  # the key and its wait in a partition

    @property
    def clock(self) -> RowClock | None:
        """When the wait is over; by the wall clock there is none."""
        return None if self.node.clock == WALL else RowClock(CLOCK)

    @property
    def can_be_late(self) -> bool:
        """If it can for the aggregate that is suppressed."""
        return operator_for(self.node.updated).can_be_late

    by_commit = False  # to the day of the time at which it left

    @property
    def waits(self) -> Waits:
        """For the limit; a person may set a longer one in place of 0."""
        return replace(super().waits, later=True)

    def open_from_ms(self, closed_ms: int | None, read_ms: int | None) -> int | None:
        """From the time on up to which all waits are over."""
        return closed_ms

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.time_limits.fold`."""
        return TimeLimit.of(self.node, of.input)
