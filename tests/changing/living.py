"""A lake in which a pipeline lives: records come, its nodes fold them, its description changes."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.nodes.descriptions.topics import is_read, topics_of, upstream_first
from headrace.observe.local_views import LocalViews
from headrace.testing.piped import PipedTopic
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic

MINUTE = 60_000
START_MS = 1_700_000_040_000  # a whole minute


class Living:
    """One lake; its topic has one partition."""

    def __init__(self, spark: SparkSession, folder: Path, topic: Topic) -> None:
        self.spark, self.folder, self.topic = spark, folder, topic
        self.lake, self.clock = Lake(f"file:{folder}"), ManualClock(START_MS)
        self._sequencer = Sequencer(spark, topic, self.lake.log(topic.name), self.clock)
        self._piped = PipedTopic(topic, self._sequencer.state.next_offsets)

    def commit(self, *records: tuple[float, str, float], name: str = "value") -> None:
        """One log commit. In: records  minute, sensor, and what stands under this name."""
        for minute, sensor, value in records:
            at_ms = START_MS + round(minute * MINUTE)
            self._piped.add(sensor, json.dumps({name: value}), at_ms, 0, {})
        self.clock.set(self.clock.now_ms() + 1_000)
        self._sequencer.append(self._piped.take_here())

    def fold(self, nodes: Sequence[Node]) -> None:
        """Run each node to the end of its log, as its stream does."""
        described = upstream_first(nodes)
        for node in described:
            runner = NodeRunner(self.spark, node, self.lake, is_read=is_read(node, described))
            while runner.advance():
                pass

    def tables(self, nodes: Sequence[Node]) -> dict[str, list[Any]]:
        """The rows of each node, as people read them."""
        views = LocalViews(self.spark, self.lake)
        read = {n.required_name: views.read(n).select([*n.columns]).to_pylist() for n in nodes}
        return {name: sorted(map(_shown, rows)) for name, rows in read.items()}

    def tables_anew(self, nodes: Sequence[Node]) -> dict[str, list[Any]]:
        """The rows that these descriptions give over the whole log, in a lake that holds nothing else."""
        anew = self.folder.parent / f"anew-{self.clock.now_ms()}-{nodes[0].fingerprint()[:6]}"
        for name in topics_of(nodes):
            shutil.copytree(self.folder / "logs" / name, anew / "logs" / name)
        other = Living.__new__(Living)
        other.spark, other.lake = self.spark, Lake(f"file:{anew}")
        alone = [replace(node, sinks=()) for node in nodes]
        other.fold(alone)
        return other.tables(alone)


def _shown(row: dict[str, Any]) -> str:
    """A row as text, with times in UTC."""
    times = {name: of.replace(tzinfo=None) for name, of in row.items() if isinstance(of, dt.datetime)}
    return repr(Row(**row | times))
