"""A log and a node driven by hand: what a stream does, one commit and one micro-batch at a time, and no broker."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.lake import small_files
from headrace.lake.commits.fence import ForeignCommitError
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.testing.piped import PipedTopic
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake


def taken_by_another(folder: str) -> None:
    """Let another process take the lease whose claims lie in a folder, as if it had expired, and give it back."""
    epoch = 1 + max(int(each.partition(".")[0]) for each in small_files.names(folder))
    small_files.write_json(f"{folder}/{epoch}.claim.json", {"taken_ms": 1})
    small_files.write_json(f"{folder}/{epoch}.renewed.json", {"renewed_ms": 0})


def at(text: str) -> int:
    """A time in UTC, as `2024-05-01 12:00:00.000`, in ms since 1970."""
    return round(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)


class Line:
    """One topic, its log, one node, its tables."""

    def __init__(self, spark: SparkSession, lake: Lake, node: Node) -> None:
        self.spark, self.lake, self.node = spark, lake, node
        self.topic = node.topics[0]
        self.clock = ManualClock(at("2024-06-01 00:00:00"))
        self.runner = NodeRunner(spark, node, lake)

    @cached_property
    def sequencer(self) -> Sequencer:
        """Opened when it is first needed: it ends the one that wrote the log before."""
        return Sequencer(self.spark, self.topic, self.lake.log(self.topic.name), self.clock)

    @cached_property
    def _piped(self) -> PipedTopic:
        return PipedTopic(self.topic, self.sequencer.state.next_offsets)

    def pipe(self, time: str, sensor: str = "s1", value: float | None = 1.0, partition: int = 0) -> None:
        """One reading at a time in UTC; without a value a tombstone."""
        text = None if value is None else json.dumps({"sensor_id": sensor, "value": value})
        self._piped.add(sensor, text, at(time), partition, {})

    def commit(self) -> None:
        """Commit what was piped to the log."""
        assert len(self._piped)
        self.sequencer.append(self._piped.take_here())

    def fold(self) -> None:
        """Run the node to the end of its log."""
        while self.runner.advance():
            pass

    def fold_again(self) -> None:
        """Open the node again, as a stream does, and run it, unless somebody else's rows are not put right yet."""
        with suppress(ForeignCommitError):
            self.runner = NodeRunner(self.spark, self.node, self.lake)
            self.fold()

    @property
    def table(self) -> str:
        """Where the results lie."""
        return self.lake.table(self.node.required_name)

    def version(self) -> int:
        """The result table's newest version."""
        return lakes.open_table(self.table).version
