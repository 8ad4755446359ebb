"""Processors: a user's class is called for the records and timers of each group."""

from __future__ import annotations

from headrace.description import Processed
from headrace.description.processor_order import TIME
from headrace.fold.kernel import Kernel
from headrace.operators.contract import POSITION, Appended, Bindings, Waits
from headrace.operators.processors import fold
from headrace.operators.processors.fold.forwarded import (
    DUE,
    GROUP_HASH,
    NUMBER,
    PLACE_IN_COMMIT,
    PLACE_IN_TIME,
)


class Processors(Appended[Processed]):
    """One row for each that the processor forwards; global tables are reference.

    Written: `process` `reaches` `with_previous`
    Law (L34, L39): A user's class sees only its group. Records come in the log's order or by event time, and timers
    go by recorded clocks. Stores survive a crash, and global tables are as of the call's place in the logs. Until a
    global table of topics is loaded for the first time, records wait. `reaches` is the first record of a group with
    which a count or a sum is at or beyond a number; no later record takes it back. `with_previous` gives a record
    values of the one before it in its group.
    Source: Kafka Streams, Processor API (KIP-28, KIP-99, KIP-138).
    Guide: processors
    """

    @property
    def group(self) -> tuple[str, ...]:
        """The group's columns, if each row has them."""
        return self.node.by if {*self.node.by} <= {*self.node.columns} else super().group

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
        """For its timers, and for complete global tables; a processor that closes waits for a drain, too.

        The lag is the grace of the order of time: timers that are not called yet are due beyond the lowest stream time.
        """
        of = self.node
        return Waits(of.longest_wait_ms, of.wall_waits, of.waits_for, of.closes, of.grace_ms)

    # The group; timers by when they were due, then records; rows of a call by their number
    cause = (GROUP_HASH, DUE, *POSITION, NUMBER)

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.processors.fold`."""
        return fold.Processors.of(self.node, of.inputs, of.fields)
