"""The mark of a repair that is under way: the work that it still owes, wherever it breaks off.

Law: the mark is written before the change after which nothing else tells of that work. It goes when all work is done. So a
repair that is run again does what the one before it left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lake import small_files

if TYPE_CHECKING:
    from headrace.lake.paths import Lake


class RepairMark:
    """The mark of the repair of one topic's log. The caller holds the leases."""

    def __init__(self, lake: Lake, topic: str) -> None:
        """Read the mark of a repair that was broken off, if there is one."""
        self._uri = lake.repairing_log(topic)
        known = small_files.read_json(self._uri)
        self.is_left = known is not None
        self.since_ms: int | None = known and known["since_ms"]
        self._outputs: set[str] = {*known["outputs"]} if known else set()

    def owe_since(self, since_ms: int) -> None:
        """Remember that nodes which have read beyond a commit time are to be computed again."""
        self.since_ms = since_ms if self.since_ms is None else min(self.since_ms, since_ms)
        self._write()

    def owe_readers_of(self, output: str) -> None:
        """Remember that the readers of a node's log are to be computed again."""
        if output not in self._outputs:
            self._outputs.add(output)
            self._write()

    def is_owed_to(self, topics: set[str]) -> bool:
        """Whether the log of one of these topics is that of a node which was computed again."""
        return not self._outputs.isdisjoint(topics)

    def clear(self) -> None:
        """All work is done."""
        small_files.delete(self._uri)

    def _write(self) -> None:
        small_files.write_json(self._uri, {"since_ms": self.since_ms, "outputs": sorted(self._outputs)})
