"""The content of a suppression's buffer, under the names of Kafka Streams' metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "suppression_buffer_count_current": "Keys (with windows: keys and windows) that wait.",
    "suppression_buffer_count_avg": "The same, on average over the micro-batches since the query was opened.",
    "suppression_buffer_count_max": "The same, at most since the query was opened.",
    "suppression_buffer_size_current": "Bytes of the raw keys and values that wait.",
    "suppression_buffer_size_avg": "The same, on average over the micro-batches since the query was opened.",
    "suppression_buffer_size_max": "The same, at most since the query was opened.",
    "suppression_emit_total": "Rows that have left, since the beginning.",
    "suppression_emit_early_total": "Rows that a full buffer made leave before their time, since the beginning.",
}


class BufferFigures:
    """The buffer of one node, over all its partitions, as of its last micro-batch.

    Source: Kafka Streams, suppression-buffer-size-*, suppression-buffer-count-* and suppression-emit-total.
    """

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._seen = 0
        self._sums = {"count": 0, "size": 0}
        self._highest = {"count": 0, "size": 0}
        self._now: dict[str, int] = {}

    def see(self, buffer: Mapping[str, Mapping[str, int]]) -> None:
        """Take in the `buffer` of a node's progress after a micro-batch; a node without one has none."""
        if not buffer:
            return
        self._seen += 1
        totals = {
            name: sum(partition.get(name, 0) for partition in buffer.values())
            for name in ("records", "bytes", "emitted", "early")
        }
        self._now = {
            "suppression_emit_total": totals["emitted"],
            "suppression_emit_early_total": totals["early"],
        }
        for what, value in (("count", totals["records"]), ("size", totals["bytes"])):
            self._sums[what] += value
            self._highest[what] = max(self._highest[what], value)
            self._now[f"suppression_buffer_{what}_current"] = value

    def numbers(self) -> dict[str, float]:
        """The figures by the names of `MEANINGS`; empty before the first micro-batch."""
        if not self._seen:
            return {}
        spans = {
            f"suppression_buffer_{what}_{kind}": number
            for what in self._sums
            for kind, number in (
                ("avg", round(self._sums[what] / self._seen, 1)),
                ("max", self._highest[what]),
            )
        }
        return {**self._now, **spans}
