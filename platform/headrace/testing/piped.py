"""Records piped into a test driver, in the shape in which Kafka delivers them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.description.epoch_time import milliseconds, moment
from headrace.description.formats import Csv, Debezium, Json, PlainValue
from headrace.description.formats.registry import RegisteredSchema
from headrace.errors import DescriptionError, TerminalError, TransientError
from headrace.log.decisions.seeding import Seeding
from headrace.log.schema_store import keep_schema
from headrace.sequence.log_columns import KAFKA
from headrace.sequence.sequence_records import RECORDS
from headrace.sinks.encoding.records import ENCODED, OWN_ID, own_avro_schema, record_bytes
from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Topic
    from headrace.description.seed import Seed
    from headrace.log.sequencer import Sequencer

    Content = Mapping[str, Any] | bytes | str | int | float | None

PARTITIONS_MAX = 1 << 20  # a seed with positions may name any of these


class PipedTopic:
    """Stands where a Kafka topic stands: numbers records and hands them over in micro-batches."""

    def __init__(self, topic: Topic, next_offsets: Mapping[int, int]) -> None:
        """Continue after the offsets that the log already holds."""
        self.topic = topic
        self._next_offset = Counter(next_offsets)
        self._rows: list[tuple[Any, ...]] = []

    def add(
        self,
        key: Content,
        value: Content,
        timestamp_ms: int,
        partition: int,
        headers: Mapping[str, bytes | str],
    ) -> int:
        """Append one record to a partition. Out: its offset."""
        self._require_bytes("key", key, self.topic.key_format)
        self._require_bytes("value", value, self.topic.format)
        offset = self._next_offset[partition]
        self._next_offset[partition] += 1
        stamp = moment(timestamp_ms)
        sent = [(name, text.encode() if isinstance(text, str) else text) for name, text in headers.items()]
        raw = [
            record_bytes(self.topic, part, content, own_schema=True)
            for part, content in (("key", key), ("value", value))
        ]
        self._rows.append((*raw, self.topic.name, partition, offset, stamp, sent or None))
        return offset

    @property
    def next_offsets(self) -> dict[int, int]:
        """For each partition the offset after the last record that was added."""
        return {**self._next_offset}

    def take(self, spark: SparkSession) -> DataFrame | None:
        """Take the records since the last call: in their order, in one task, a row each as `KAFKA`; None: there are none."""
        rows, self._rows = self._rows, []
        return local_frame(spark, rows, KAFKA).coalesce(1) if rows else None

    def __len__(self) -> int:
        """How many records were added since the last call of `take` or `take_here`."""
        return len(self._rows)

    def take_here(self) -> list[pa.RecordBatch]:
        """The records that `take` gives, by partition and offset, as a task of Spark gets it (see `RECORDS`)."""
        rows, self._rows = self._rows, []
        found = []
        for key, value, _, partition, offset, stamp, headers in sorted(rows, key=lambda row: row[3:5]):
            names, values = ([*part] for part in zip(*headers, strict=True)) if headers else ([], [])
            found.append((partition, offset, key, value, milliseconds(stamp), names, values))
        columns = [*zip(*found, strict=True)] or [()] * len(RECORDS)
        arrays = [pa.array(column, of.type) for column, of in zip(columns, RECORDS, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=RECORDS)]

    def _require_bytes(self, part: str, content: Content, of: object) -> None:
        in_json = of == "json" or isinstance(of, Json) or (isinstance(of, Debezium) and of.format == "json")
        in_text = isinstance(of, (PlainValue, *ENCODED)) or (isinstance(of, Csv) and isinstance(content, str))
        if not in_json and not in_text and content is not None and not isinstance(content, bytes):
            raise DescriptionError(
                f"Topic '{self.topic.name}': the {part} {content!r} is not bytes, and the topic's {part}s are no JSON.",
                hint="Give it as its producer encodes it.",
            )
        if part == "key" and in_json and isinstance(content, str) and not self.topic.scalar_key:
            raise DescriptionError(
                f"Topic '{self.topic.name}': the key {content!r} is text, but the topic's key is not one STRING column.",
                hint="Give the key as a dict (it is sent as JSON), or as bytes.",
            )


def keep_own_schemas(log_path: str, topic: Topic) -> None:
    """Let the log know the schemas with which a driver writes Avro of a registry, before it is opened."""
    for part in ("key", "value"):
        try:
            own = own_avro_schema(topic, part)
        except (TerminalError, TransientError):  # such rows are piped as bytes
            continue
        if own is not None:
            keep_schema(log_path, own[0], OWN_ID, RegisteredSchema("AVRO", own[1]))


def seed_piped(spark: SparkSession, sequencer: Sequencer, seed: Seed) -> None:
    """Let a log begin with its seed, whose `then` states the partitions; else there is one, and words are offset 0."""
    stated = dict(seed.then) if isinstance(seed.then, tuple) else {0: 0}
    partitions = max(stated) + 1 if seed.position is None else PARTITIONS_MAX
    seeding = Seeding(spark, sequencer, seed)
    if sequencer.state.batch == 0:
        starts = dict.fromkeys(range(partitions), 0) | stated if seed.position is None else {}
        seeding.begin(partitions, lambda then: starts)
    seeding.run(partitions)
