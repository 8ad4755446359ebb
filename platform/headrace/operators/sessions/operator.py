"""Sessions."""

from __future__ import annotations

from headrace.fold.contract import KEY, PARTITION, TOPIC
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Bindings, OfWindows
from headrace.operators.sessions import fold


class Sessions(OfWindows):
    """One row per group, partition and session.

    Written: `group_by` `window` of `hr.session`
    Law (L17): Each event of a session but the first is at most `gap` after another. A session closes when the stream time
    of its partition reaches its last event plus `gap` plus `grace`. A record joins the open sessions within `gap` of it,
    and makes one of them. It is late if it joins none and its own session would be closed.
    Source: Kafka Streams, session windows (KIP-94).
    Guide: windows
    """

    @property
    def identity(self) -> tuple[str, ...]:
        """The key and the partition: records in two partitions may make sessions of a group with equal bounds."""
        topic = (TOPIC,) if len(self.node.topics) > 1 else ()
        return (*self.node.key, *topic, PARTITION)

    order = ("window_end", KEY, TOPIC, PARTITION)  # by end, then by group, then by partition

    # Two sessions of a group and partition never have the same last event, so never the same clock
    cause = (KEY, TOPIC, PARTITION)

    uncuttable = "the sessions before a record decide whether it is late"

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.sessions.fold`."""
        return fold.Sessions.of(self.node, of.input)

    def changes(self, of: Bindings) -> Kernel:
        """The sessions as they grow."""
        return fold.SessionChanges.of(self.node, of.input)
