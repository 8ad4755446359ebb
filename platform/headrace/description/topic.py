"""A topic: what its records look like, and what the sequencer decides about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from headrace.description.added_columns import added_as_text
from headrace.description.durations import Duration, duration_ms, optional_ms
from headrace.description.event_time import EventTime, event_time
from headrace.description.formats import Debezium, Format
from headrace.description.kafka_settings import KafkaSettings
from headrace.description.replay import ReplayGuard, check_path
from headrace.description.row_operators import StreamOperators
from headrace.description.schema import Column, parse_ddl, to_ddl
from headrace.description.seed import Seed
from headrace.description.source_chain import SOURCE_CHAIN
from headrace.description.start import normalised_start, start_ms
from headrace.description.stream import Branch, Stream
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

FORMATS = ("json",)
KAFKA = "kafka"  # for `keep_raw`: Kafka keeps the bytes of records, and the log does not
_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


@explained_call
@dataclass(frozen=True, eq=False)
class Topic(StreamOperators):
    """Describes a Kafka topic; nothing is read until a stream or a driver runs.

    In: `key`, `value`: columns as DDL (`key=None`: no key; one STRING column: plain UTF-8; one other: JSON, or its value);
    `timestamp`: the event time, as a column of the value or an expression over it and the headers: a field ("meta.at"),
    to_timestamp, timestamp_seconds, arithmetic of whole numbers, coalesce; BIGINT is epoch ms; None for Kafka's;
    `idle_timeout`: how long a partition without records holds windows open, None for ever;
    `start`: "earliest", "latest", a time with its zone, or a table to begin with: `hr.from_table(…)`, `hr.from_files(…)`;
    `replay_guard`: an `hr.ReplayGuard` that marks records sent a second time;
    `max_future`: how far ahead of the wall clock a record may be without being a dead letter;
    `format`: "json", or `hr.Avro(…)`, whose schema gives the columns, and `value` may narrow them; `key_format`: of keys;
    `options`: more settings of the Kafka client, whose values are never shown;
    `renamed`: former names of columns of the value, such as `{"celsius": "temp"}`: `headrace apply` writes the log again so;
    `added`: values of new columns in records that the log has, such as `{"place": "hall"}`: `headrace apply` fills them in;
    `keep_raw`: a change of how records are read is applied to older records, too: True: the log keeps their bytes; "kafka":
    the log does not, and `headrace apply` reads Kafka again, as long as Kafka has all records of the log;
    `family`: a pattern of names, of a topic that `hr.topics` describes with others; it changes nothing that is read.
    Raises: DescriptionError naming the topic, the value and the fix.
    """

    name: str
    key: str | None = None
    value: str = ""
    timestamp: str | None = None
    format: str | Format = "json"
    replay_guard: ReplayGuard | None = None
    idle_timeout: Duration | None = "1 minute"
    start: str | datetime | Seed = "earliest"
    max_future: Duration = "1 day"
    options: Mapping[str, str] = field(default_factory=dict)
    key_format: str | Format = "json"
    renamed: Mapping[str, str] = field(default_factory=dict)
    keep_raw: bool | str = False
    added: Mapping[str, Any] = field(default_factory=dict)
    family: str | None = None

    def __post_init__(self) -> None:
        self._check_name()
        for name, given in (("format", self.format), ("key_format", self.key_format)):
            if given not in FORMATS and not isinstance(given, Format):
                raise DescriptionError(
                    f"{self._what}: {name} {a_value(given)} does not exist; "
                    f"formats are {listed(FORMATS)}, hr.Avro(…), "
                    "hr.Protobuf(…), hr.JsonSchema(…), hr.Json(…), hr.Csv(…), hr.Text(…), hr.Bytes(), hr.Number(…) and "
                    "hr.Debezium(…)."
                )
        captured = isinstance(self.format, Debezium) and self.format.format == "json"
        # Keys may stand in a payload, too.
        if captured and self.key is not None and self.key_format == "json":
            object.__setattr__(self, "key_format", Debezium())
        if self.replay_guard is not None and not isinstance(self.replay_guard, ReplayGuard):
            raise DescriptionError(
                f"{self._what}: replay_guard {a_value(self.replay_guard)} is no guard.",
                hint="Give hr.ReplayGuard(), or None.",
            )
        self._check_shared_columns()
        if self.replay_guard is not None:
            check_path(self.replay_guard, self.value_columns, self._what)
        self._check_timestamp()
        self._check_idle_timeout()
        duration_ms(self.max_future, f"{self._what}: max_future")
        if isinstance(self.start, Seed):
            self.start.check(self)
        else:
            object.__setattr__(self, "start", normalised_start(self.start, f"{self._what}: start"))
        self._check_renamed()
        _ = self.added_values
        if not isinstance(self.keep_raw, bool) and self.keep_raw != KAFKA:
            raise DescriptionError(
                f"{self._what}: keep_raw {a_value(self.keep_raw)} does not exist; give False, True or {KAFKA!r}."
            )
        kept = f"{self._what}: with keep_raw={self.keep_raw!r}"
        if self.keep_raw and self.added:
            raise DescriptionError(
                f"{kept} a new column cannot be given a value: older records are read again.",
                hint="Let a step do it: with_column(name, coalesce(name, value)).",
            )
        if self.keep_raw and self.renamed:
            raise DescriptionError(
                f"{kept} a column cannot be renamed: older records are read again.",
                hint="Describe both names, and take the one that is there: coalesce(new, old).",
            )
        object.__setattr__(self, "options", KafkaSettings(self.options, f"{self._what}: options"))

    @property
    def stream(self) -> Stream:
        """Take the topic's records as they are, as a stream."""
        return Stream((Branch(self, ()),), self.columns)

    @property
    def _flow(self) -> Stream:
        return self.stream

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the record key; none when records have no key."""
        if isinstance(self.key_format, Format):
            return self.key_format.columns(self.name, "key", self.key)
        return () if self.key is None else parse_ddl(self.key, f"{self._what}: key")

    @cached_property
    def value_columns(self) -> tuple[Column, ...]:
        """The columns of the record value."""
        if isinstance(self.format, Format):
            return self.format.columns(self.name, "value", self.value)
        return parse_ddl(self.value, f"{self._what}: value")

    @cached_property
    def event_time(self) -> EventTime | None:
        """How the event time is found in the value; None: it is Kafka's timestamp."""
        return None if self.timestamp is None else event_time(self.timestamp, self.value_columns, self._what)

    @cached_property
    def added_values(self) -> dict[str, str]:
        """The values of `added`, each as the text that a cast to its column's type makes it of."""
        return added_as_text(self.added, self.value_columns, self.renamed, self._what)

    @property
    def types(self) -> dict[str, Column]:
        """The columns by name: those of the key, then those of the value that are not in the key."""
        keys = {column.name: column for column in self.key_columns}
        return keys | {column.name: column for column in self.value_columns if column.name not in keys}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns: those of the key, then those of the value that are not in the key."""
        return tuple(self.types)

    @property
    def has_one_partition(self) -> bool:
        """True if all records of any group are in one partition; of Kafka's topics only their keys tell it."""
        return False

    @property
    def behind_clock_ms(self) -> int:
        """How far stream time in its log is behind the clocks of its rows (L32); of Kafka's topics they are one."""
        return 0

    @property
    def tells_changes(self) -> bool:
        """True if its records are changes of a table: they follow from a whole log commit, and stand after its records."""
        return False

    @property
    def in_words(self) -> str:
        """The name that people see."""
        return self.name

    def rules(self) -> dict[str, Any]:
        """How its records are read, if the log can be made anew by it; else they depend on nothing beside Kafka."""
        return {"decoded": self.decoded} if self.keep_raw else {}

    @property
    def decoded(self) -> dict[str, Any]:
        """How its records are read: the event time, the formats and the columns."""
        columns = {"key": to_ddl(self.key_columns), "value": to_ddl(self.value_columns)}
        return {"timestamp": self.timestamp, **self.formats, **columns}

    @property
    def chain_header(self) -> str:
        """The header of its log that holds the source chain of a record."""
        return SOURCE_CHAIN if self.replay_guard is None else self.replay_guard.log_header

    @property
    def has_bytes_in_log(self) -> bool:
        """True if each row of its log has the bytes of its record."""
        return self.keep_raw is True

    @property
    def formats(self) -> dict[str, str]:
        """The formats of values and keys with their options, but for the addresses of registries."""
        return {
            name: of if isinstance(of, str) else _format_text(of)
            for name, of in (("format", self.format), ("key_format", self.key_format))
        }

    @property
    def idle_timeout_ms(self) -> int | None:
        """The idle timeout in milliseconds; None is strict event time."""
        return optional_ms(self.idle_timeout, f"{self._what}: idle_timeout")

    @property
    def max_future_ms(self) -> int:
        """How far ahead of the wall clock a record's event time may lie, in milliseconds."""
        return duration_ms(self.max_future, f"{self._what}: max_future")

    @property
    def start_ms(self) -> int | None:
        """The time to start at, in epoch milliseconds; None for "earliest", "latest" and a seed."""
        return None if isinstance(self.start, Seed) else start_ms(str(self.start))

    @property
    def scalar_key(self) -> bool:
        """Whether the key is one STRING column, which is plain UTF-8 in Kafka."""
        return self.key_format in FORMATS and [column.type for column in self.key_columns] == ["STRING"]

    @property
    def _what(self) -> str:
        return f"Topic '{self.name}'"

    @cached_property
    def _content(self) -> tuple[object, ...]:
        return (
            self.name, self.key_columns, self.value_columns, self.timestamp, self.format, self.key_format,
            self.idle_timeout_ms, self.start, self.max_future_ms, self.options, self.replay_guard,
            tuple(sorted(self.renamed.items())), self.keep_raw, tuple(sorted(self.added_values.items())),
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topic):
            return NotImplemented
        return self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def _check_name(self) -> None:
        check_topic_name(self.name, "Topic")

    def _check_shared_columns(self) -> None:
        keys = {column.name.lower(): column for column in self.key_columns}
        for column in self.value_columns:
            key = keys.get(column.name.lower(), column)
            if (key.name, key.type) != (column.name, column.type):
                raise DescriptionError(
                    f"{self._what}: '{key.name} {key.type}' in the key and '{column.name} {column.type}' "
                    "in the value are one column.",
                    hint="Give both the same spelling and type, or rename one.",
                )

    def _check_renamed(self) -> None:
        names = [column.name for column in self.value_columns]
        for new, old in self.renamed.items():
            if new not in names or old in names or [*self.renamed.values()].count(old) > 1:
                raise DescriptionError(
                    f"{self._what}: renamed {a_value(new)}, formerly {a_value(old)}, is no renamed column of the value.",
                    hint=f"Give the new name, then the former one; the value has {listed(names)}.",
                )

    def _check_timestamp(self) -> None:
        if self.timestamp is not None and not isinstance(self.timestamp, str):
            raise DescriptionError(
                f"{self._what}: timestamp {a_value(self.timestamp)} is neither a column nor an expression."
            )
        _ = self.event_time

    def _check_idle_timeout(self) -> None:
        if self.idle_timeout_ms == 0:
            raise DescriptionError(
                f"{self._what}: idle_timeout {a_value(self.idle_timeout)} is too short.",
                hint="Give a time such as '1 minute', or None for strict event time.",
            )


def check_topic_name(name: object, what: str) -> None:
    """Raise DescriptionError for a name that Kafka gives no topic."""
    if not isinstance(name, str) or not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
        raise DescriptionError(
            f"{what}: {a_value(name)} is not a topic name of Kafka's.",
            hint="Use 1 to 249 of the letters A-Z and a-z, digits, '.', '_' and '-'.",
        )


def _format_text(of: Format) -> str:
    """A format with its options, but for the addresses of registries."""
    options = ((each.name, getattr(of, each.name)) for each in fields(of))  # type: ignore[arg-type]
    told = [
        f"{n}={v!r}" for n, v in options if isinstance(v, str | bool | int) and n not in ("registry", "url")
    ]
    return f"{type(of).__name__}({', '.join(told)})"
