"""A log and totals in a process that makes local copies of the state; another process goes on when it is killed."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import headrace as hr
from headrace.engine import state_copies, state_reads
from headrace.engine.state_copies import StateCopies
from headrace.engine.state_groups import GROUPS
from headrace.lake.paths import Lake
from headrace.lake.storage import local_path
from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.observe.local_views import LocalViews
from headrace.spark.on_demand import SparkOnDemand, laptop_session
from headrace.testing.piped import PipedTopic
from headrace.writing.node_runner import NodeRunner

KEYS, RECORDS = 8_000, 400  # the first commit has a record of each key
READINGS = hr.Topic("readings", key="sensor STRING", value="n BIGINT", idle_timeout=None)
TOTALS: Any = READINGS.group_by("sensor").aggregate(n=hr.count(), total=hr.sum("n")).named("totals")


class Life:
    """One process. Each read asks for copies of all files that it reads."""

    def __init__(self, root: str, copies: str) -> None:
        state_reads.MANY_GROUPS = state_reads.COPIED_ROWS_MIN = 1
        state_reads.SPARSE_ROWS = KEYS
        state_copies.TRY_AGAIN_SECONDS = 0.0
        self.copies = StateCopies(Path(copies), 1 << 30, free_bytes_min=0)
        state_reads.COPIES = self.copies  # type: ignore[attr-defined]
        self.lake = Lake(root)
        self._spark = SparkOnDemand.session(partial(laptop_session, None, "life with copies"))
        self._log = Sequencer(self._spark, READINGS, self.lake.log(READINGS.name), SystemClock())
        self._piped = PipedTopic(READINGS, self._log.state.next_offsets)
        self.runner = NodeRunner(self._spark, TOTALS, self.lake)

    @property
    def records(self) -> int:
        return self._piped.next_offsets.get(0, 0)

    def commit(self) -> None:
        """One log commit, folded by a process that remembers no row of the state."""
        for number in range(self.records, self.records + (RECORDS if self.records else KEYS)):
            self._piped.add(*record(number), SystemClock().now_ms(), 0, {})
        self._log.append(self._piped.take_here(), in_order=True)
        GROUPS.clear()
        while self.runner.advance():
            pass

    def is_right(self) -> bool:
        """Whether the table has what plain Python counts."""
        counted, summed = Counter[str](), Counter[str]()
        for number in range(self.records):
            sensor, value = record(number)
            counted[sensor] += 1
            summed[sensor] += value["n"]
        rows = LocalViews(self._spark, self.lake).read(TOTALS).to_pylist()
        return len(rows) == KEYS and all(
            (row["n"], row["total"]) == (counted[row["sensor"]], summed[row["sensor"]]) for row in rows
        )


def record(number: int) -> tuple[str, dict[str, int]]:
    return f"sensor-{number if number < KEYS else number * 7_919 % KEYS}", {"n": number % 100}


def live_on(root: str, copies: str) -> None:
    """Until the process is killed."""
    life = Life(root, copies)
    while True:
        life.commit()


def live_and_look(root: str, copies: str) -> None:
    """Some commits, then the tables."""
    life = Life(root, copies)
    for _ in range(3):
        life.commit()
        life.copies.wait()
    print("right" if life.is_right() else "wrong", life.records)


def live_on_a_full_disk(root: str, copies: str) -> None:
    """No file may have more bytes than a quarter beyond those of the lake: a copy of the largest one does not fit."""
    life = Life(root, copies)
    life.commit()
    life.runner.maintain()
    largest = max(path.stat().st_size for path in local_path(root).rglob("*.parquet"))
    known, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest * 5 // 4, most))
    for _ in range(3):
        life.commit()
        life.copies.wait()
    full = life.copies.bytes
    left = (Path(copies) / state_copies.TEMPORARY).exists()
    resource.setrlimit(resource.RLIMIT_FSIZE, (known, most))
    for _ in range(2):
        life.commit()
        life.copies.wait()
    said = full < largest < life.copies.bytes, not left, life.is_right()
    print("right" if all(said) else f"wrong: {said} {full} {largest} {life.copies.bytes}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
