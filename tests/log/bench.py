"""A sequencer on a log of its own, with a clock that a test moves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace as hr
from headrace.log.sequencer import Sequencer
from headrace.testing.piped import PipedTopic
from tests.laws import tables
from tests.no_spark import no_session
from tests.rows import log_rows

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC = hr.Topic("readings", key="key STRING", value="value DOUBLE", idle_timeout="10 seconds")
START_MS = 1_700_000_000_000
WAIT_MS = 60_000


class Clock:
    """A clock that a test can also set back."""

    def __init__(self) -> None:
        self.ms = START_MS
        self.steady = 7

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.steady

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.ms += ms
        self.steady += ms


class Bench:
    """A sequencer on a log of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()
        self.sequencer = self.opened()
        self.topic = PipedTopic(TOPIC, {})

    def opened(self) -> Sequencer:
        """A sequencer as after a restart."""
        return self.opened_with()

    def opened_with(self, **settings: Any) -> Sequencer:
        """The same, with more of a node's or a stream's wishes."""
        path = f"file:{self.folder}"
        return Sequencer(no_session(), TOPIC, path, self.clock, longest_wait_ms=WAIT_MS, **settings)

    def batch(self, *records: tuple[int, int | None]) -> list[pa.RecordBatch]:
        """A micro-batch of (partition, event time in s); None: it cannot be decoded."""
        for partition, second in records:
            value = b"?" if second is None else b"{}"
            self.topic.add("k", value, START_MS + (second or 0) * 1000, partition, {})
        return self.topic.take_here()

    def append(self, *records: tuple[int, int | None]) -> None:
        self.sequencer.append(self.batch(*records), in_order=True)

    def tick(self, after_s: int = 0) -> int:
        self.clock.ms += after_s * 1000
        return self.sequencer.tick(frozenset(self.sequencer.state.partitions))

    def rows(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The log in its order, times in s after the start."""
        found = [tables.in_ms(row) for row in log_rows(f"file:{self.folder}")]
        for row in found:
            row["stream_s"] = None if row["stream_time"] is None else (row["stream_time"] - START_MS) / 1000
        return sorted((row for row in found if kind in (None, row["kind"])), key=_place)

    def stream(self) -> dict[int, list[float]]:
        """For each partition the stream times in the order of its rows."""
        times: dict[int, list[float]] = {}
        for row in self.rows():
            if row["kind"] != "control":
                times.setdefault(row["partition"], []).append(row["stream_s"])
        return times


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    """The place of a row in the log; one without an offset comes before those of its commit and partition."""
    return row["ingested_at"], row["partition"], -1 if row["offset"] is None else row["offset"]
