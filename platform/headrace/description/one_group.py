"""A whole stream as one group: its windows, totals and batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.description.clocks import STREAM
from headrace.description.durations import Duration
from headrace.description.ways_on import WaysOn

if TYPE_CHECKING:
    from headrace.description.aggregates import Aggregate
    from headrace.description.batches import Batches
    from headrace.description.grouped import WindowedStream
    from headrace.description.running import RunningAggregate
    from headrace.description.stream import Stream
    from headrace.description.windows import WindowKind


class OneGroup(WaysOn, kind="stream"):
    """Windows, totals and batches of a whole stream. Their column `stream` is 'all'."""

    @property
    @abstractmethod
    def _flow(self) -> Stream:
        """Take it as a stream."""

    def window(
        self, window: WindowKind, grace: Duration | None = None, clock: str = STREAM
    ) -> WindowedStream:
        """Make windows of the whole stream. See `GroupedStream.window`."""
        from headrace.description.grouped import whole_stream  # a grouped stream holds a stream

        return whole_stream(self._flow).window(window, grace, clock)

    def aggregate(self, **aggregates: Aggregate) -> RunningAggregate:
        """Keep one row for the whole stream. See `GroupedStream.aggregate`."""
        from headrace.description.grouped import whole_stream  # a grouped stream holds a stream

        return whole_stream(self._flow).aggregate(**aggregates)

    def batch(
        self,
        *,
        collect: Sequence[str],
        max_records: int | None = None,
        max_wait: Duration | None = None,
        max_bytes: int | None = None,
        every: Duration | None = None,
    ) -> Batches:
        """Collect columns of all records into batches, in the order of the logs. See `GroupedStream.batch`."""
        from headrace.description.grouped import whole_stream  # a grouped stream holds a stream

        return whole_stream(self._flow).batch(
            collect=collect, max_records=max_records, max_wait=max_wait, max_bytes=max_bytes, every=every
        )
