"""The format of a topic's records, as plain values that go to tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description.event_time import EventTime
from headrace.description.replay import ReplayGuard
from headrace.description.schema import Column
from headrace.sequence.encodings import CsvBytes, Encoding, JsonBytes, KnownSchemas, ValueBytes, encoding_of

if TYPE_CHECKING:
    from headrace.description import Topic


@dataclass(frozen=True)
class RecordFormat:
    """The part of a topic's description that says how its records are read.

    topic          its name
    key, value     columns; without key columns the key is not looked at
    timestamp      the event time in words: a column of the value, or an expression over it; None: Kafka's timestamp
    event_time     how it is found in the value
    max_future_ms  how far beyond its commit time the event time of a record may lie
    guard          None: records are not judged
    keep_raw       whether rows have the bytes of their records
    key_encoding, value_encoding  None: keys, values are JSON; a key of one STRING column is plain text
    """

    topic: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    timestamp: str | None
    max_future_ms: int
    guard: ReplayGuard | None
    event_time: EventTime | None
    key_encoding: Encoding | None = None
    value_encoding: Encoding | None = None
    keep_raw: bool = False

    @classmethod
    def of(cls, topic: Topic, known: KnownSchemas | None = None) -> RecordFormat:
        """The format that a topic describes. In: known  None: nothing of registries."""
        known = known or KnownSchemas()
        return cls(
            topic.name,
            topic.key_columns,
            topic.value_columns,
            topic.timestamp,
            topic.max_future_ms,
            topic.replay_guard,
            topic.event_time,
            encoding_of(topic, "key", known),
            encoding_of(topic, "value", known),
            topic.has_bytes_in_log,
        )

    @property
    def scalar_key(self) -> bool:
        """Whether the key is one STRING column, which is plain UTF-8 in Kafka."""
        return self.key_encoding is None and [column.type for column in self.key] == ["STRING"]

    @property
    def compressed(self) -> tuple[str, ...]:
        """Which of `key` and `value` may be compressed, each by itself."""
        parts = ("key", self.key_encoding), ("value", self.value_encoding)
        return tuple(
            name for name, of in parts if isinstance(of, JsonBytes | CsvBytes | ValueBytes) and of.gzip
        )
