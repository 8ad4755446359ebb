"""Processors: a user's class is called for the records and timers of each group."""

from __future__ import annotations

from headrace.description import Processed
from headrace.description.processor_order import TIME
from headrace.fold.contract import CLOCK
from headrace.fold.processors.forwarded import PLACE_IN_COMMIT, PLACE_IN_TIME
from headrace.operators.contract import Appended, RowClock, Waits


class Processors(Appended[Processed]):
    """One row for each that the processor forwards; global tables are reference."""

    @property
    def driving(self) -> tuple[str, ...]:
        """The topics of the stream: a version of a global table calls no processor."""
        return tuple(dict.fromkeys(topic.name for topic in self.node.stream.topics))

    @property
    def order(self) -> tuple[str, ...]:
        """By the place of the call in its commit."""
        return PLACE_IN_TIME if self.node.order == TIME else PLACE_IN_COMMIT

    @property
    def waits(self) -> Waits:
        """For its timers; a processor that closes waits for a drain, too."""
        return Waits(self.node.longest_wait_ms, self.node.wall_waits, drain=self.node.closes)

    @property
    def clock(self) -> RowClock:
        """That of the call."""
        return RowClock(CLOCK)
