"""The quotas of a node's sinks: after a delivery the node rests until each has room again."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from headrace.description.quota import quota_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node
    from headrace.lake import NewFile

MEANINGS = {
    "sink_delay_seconds": "How long the next micro-batch still waits for a quota of a sink; 0: none is full."
}


class SinkQuotas:
    """When the quotas of a node's sinks have room for its next micro-batch.

    Law: no row and no commit depends on it; it only says when the next micro-batch may begin. A new process begins with
         empty quotas.
    """

    def __init__(self, node: Node) -> None:
        """All quotas have room."""
        self._quotas = [quota for quota in map(quota_of, node.sinks) if quota is not None]
        self._free_at = 0.0

    def delivered(self, files: Sequence[NewFile]) -> None:
        """Note a delivery of the rows in some files, which has ended now."""
        if not self._quotas:
            return
        rows = sum(json.loads(file.stats)["numRecords"] for file in files)
        size_bytes = sum(file.size for file in files)
        seconds = max(quota.seconds(rows, size_bytes) for quota in self._quotas)
        self._free_at = max(self._free_at, time.monotonic()) + seconds

    @property
    def delay_seconds(self) -> float | None:
        """How long the next micro-batch has to wait; None: no sink has a quota."""
        return max(0.0, self._free_at - time.monotonic()) if self._quotas else None

    def numbers(self) -> dict[str, float]:
        """The figures of `MEANINGS`; none without a quota."""
        delay = self.delay_seconds
        return {} if delay is None else {"sink_delay_seconds": round(delay, 1)}
