"""Ranges of a topic's records, which Spark's tasks read by Kafka's client and work on at once.

Law: a task has whole partitions, each in the order of its offsets. The records are those that the run's own process reads.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.spark.brokers.kafka_refusals import RecordsNotReadError
from headrace.spark.one_task import reports_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.spark.brokers.kafka_client import KafkaReader

NOT_READ = "not_read"  # in the report of a task: why the client could not read


@dataclass(frozen=True)
class KafkaRanges:
    """Exact ranges of one topic.

    spark    runs the tasks
    reader   reads the records
    offsets  for each partition the first and the last; Kafka has given out all of them
    """

    spark: SparkSession
    reader: KafkaReader
    offsets: Mapping[int, tuple[int, int]]

    def reports(
        self, work: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], tasks: int
    ) -> list[dict[str, Any]]:
        """The reports of tasks that work on all records.

        In:  work   takes records as `RECORDS` and yields one report (JSON), as for `reports_of`
             tasks  the number of tasks, at most
        Out: a report with NOT_READ says that a task could not read
        """
        parts = shares(self.offsets, tasks)
        numbers = self.spark.range(0, len(parts), 1, len(parts))
        return reports_of(numbers, _ReadingTask(self.reader, parts, work), ["id"])


@dataclass(frozen=True)
class _ReadingTask:
    """Reads the ranges of one share. In: batches  with the number of the share."""

    reader: KafkaReader
    parts: Sequence[Mapping[int, tuple[int, int]]]
    work: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`."""
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            try:
                yield from self.work(self.reader.read(self.parts[number]))
            except RecordsNotReadError as error:
                yield pa.RecordBatch.from_pydict({"report": [json.dumps({NOT_READ: error.detail})]})


def shares(offsets: Mapping[int, tuple[int, int]], tasks: int) -> list[dict[int, tuple[int, int]]]:
    """The ranges of each task, about as many offsets for each. In: tasks  their number, at most."""
    made, load = defaultdict[int, dict[int, tuple[int, int]]](dict), Counter(dict.fromkeys(range(tasks), 0))
    for partition, (first, last) in sorted(offsets.items(), key=lambda each: each[1][0] - each[1][1]):
        least = min(load, key=lambda task: (load[task], task))
        made[least][partition] = (first, last)
        load[least] += last - first + 1
    return [made[task] for task in sorted(made)]
