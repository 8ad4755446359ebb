"""Notice commits to logs by their newest versions, and promises: some looks for a file each, whatever the log holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.engine.slices.log_slices import KIND, PLACED, LogSlice
from headrace.log.decisions.promise import read_promise
from headrace.nodes.node_tables import frontier_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.lake.paths import Lake

# Of the files of a log in which this process counts by itself; in more of them Spark does.
FEW_BYTES = 16 << 20


def log_version(lake: Lake, topic: Topic) -> int:
    """The newest version of a topic's log; -1 if there is no log yet."""
    return lakes.open_table(lake.log(topic.name)).recent_version


def log_promise(lake: Lake, topic: Topic) -> int:
    """The last promise of a topic's log, in ms; 0 if there is none."""
    return read_promise(lake.log(topic.name))


def waiting_records(
    spark: SparkSession, lake: Lake, topics: Iterable[Topic], upto_ms: Mapping[str, int]
) -> int:
    """How many records logs hold that a node has not read. In: upto_ms  how far it has read each."""
    return sum(
        _records(spark, topic, LogSlice.of(lake.log(topic.name), upto_ms.get(topic.name, 0), frontier))
        for topic in topics
        if (frontier := frontier_ms(lake, topic, recent=True))
    )


def _records(spark: SparkSession, topic: Topic, waiting: LogSlice) -> int:
    """Few files are mostly those that this process has just written: it needs neither Spark nor requests for them."""
    if waiting.bytes <= FEW_BYTES:
        return waiting.records()
    return waiting.frame(spark, topic).where(F.col(KIND).isin(*PLACED)).count()


class LogWatch:
    """The newest version and the promise of each log as of the last look."""

    def __init__(self, version_of: Callable[[Topic], int], promise_of: Callable[[Topic], int]) -> None:
        """Nothing has been looked at yet."""
        self._version_of, self._promise_of = version_of, promise_of
        self._seen: dict[str, tuple[int, int]] = {}

    def moved(self, topics: Iterable[Topic], *, promises: bool) -> bool:
        """Whether any of these logs has another version than at the last look, or had none.

        In: promises  whether another promise counts, too: what is settled may grow without a commit
        """
        found = {
            topic.name: (self._version_of(topic), self._promise_of(topic) if promises else 0)
            for topic in topics
        }
        moved = any(self._seen.get(name) != each for name, each in found.items())
        self._seen |= found
        return moved
