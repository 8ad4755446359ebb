"""Sessions."""

from __future__ import annotations

from headrace.fold.contract import KEY, PARTITION, TOPIC
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Bindings, OfWindows
from headrace.operators.sessions import fold


class Sessions(OfWindows):
    """One row per group, partition and session.

    Written: `group_by` `window` of `hr.session`
    Law (L17): A session's events are each within `gap` of another. It closes when its partition's stream time is at
    or beyond its last event, `gap` and `grace`.
    Source: Kafka Streams, session windows (KIP-94).
    Guide: windows
    """

    @property
    def identity(self) -> tuple[str, ...]:
        """The key and the partition: records in two partitions may make sessions of a group with equal bounds."""
        topic = (TOPIC,) if len(self.node.topics) > 1 else ()
        return (*self.node.key, *topic, PARTITION)

    order = ("window_end", KEY, TOPIC, PARTITION)  # by end, then by group, then by partition

    cause = (KEY, TOPIC, PARTITION)  # the group and the partition: of a clock they have one session

    # They cannot: sessions before a record decide its fate
    uncuttable = "the sessions before a record decide whether it is late"

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.sessions.fold`."""
        return fold.Sessions.of(self.node, of.input)

    def changes(self, of: Bindings) -> Kernel:
        """The sessions as they grow."""
        return fold.SessionChanges.of(self.node, of.input)
