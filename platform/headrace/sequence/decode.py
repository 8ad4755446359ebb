"""Decide about records one by one: key, value, event time, or the reason why a record is a dead letter.

Law: a function of the record and of the commit time. Each kind of bad input has one reason, tried in this order; the first
that applies is recorded:
  malformed key      not UTF-8, not a JSON object, not JSON or a field does not fit, more than one JSON object;
                     of other formats see `framing` and their readers
  missing key field  of a column that is NOT NULL
  malformed value, missing value field   the same; a record without a value is a tombstone and lacks nothing
  disagreement       a column of key and value has two values, neither of them null
  timestamp          null, before 1970, or more than `max_future` beyond the commit time
A record without a value, and a deletion of Debezium that tells no time, have no event time where a topic reads event times
from values; they are no dead letters. The sequencer gives them their row's stream time (see `sequence_records`).
(A malformed source chain comes last, see `chains`.) Any bytes, and any int64 as a Kafka timestamp, are decided about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import to_ddl
from headrace.description.durations import format_duration
from headrace.description.formats.plain_values import TEXT
from headrace.description.schema import Column
from headrace.fold.values.encode import encode
from headrace.sequence.encodings import (
    AvroBytes,
    CsvBytes,
    DebeziumBytes,
    Encoding,
    JsonBytes,
    PlainEncoding,
    ProtobufBytes,
    ValueBytes,
)
from headrace.sequence.event_times import event_times
from headrace.sequence.formats import RecordFormat
from headrace.sequence.parse.types import fields_of
from headrace.sequence.readers.bare_keys import with_bare_keys
from headrace.sequence.readers.json_reader import JsonReader
from headrace.sequence.readers.plain_values import PlainValueReader
from headrace.sequence.readers.read_part import Read, ReadPart
from headrace.sequence.reasons import Reasons, marks_of

LAST_TIMESTAMP_MS = 253_402_300_799_999  # the end of the year 9999: beyond it no timestamp can be written
NOTHING = np.iinfo(np.int64).min  # stands for a time that is not there


@dataclass(frozen=True)
class Decoded:
    """The columns of some records that are functions of each record.

    keys, values  structs, null where there are none; of dead letters what could be read; keys None: the topic has none
    tombstones    records without a value, and those whose value says that their key is gone
    bare          records without a value in a topic of Debezium's changes: they delete by position only
    event_ms      of each record; `NOTHING` where there is none
    reasons       of dead letters
    asked         address and id of schemas that a registry has to be asked for; if there are any, the rest does not count
    """

    keys: pa.StructArray | None
    values: pa.StructArray
    tombstones: np.ndarray
    bare: np.ndarray
    event_ms: np.ndarray
    reasons: Reasons
    asked: frozenset[tuple[str, int]] = frozenset()


class Decoder:
    """Types the records of one topic."""

    def __init__(self, of: RecordFormat) -> None:
        self._of = of
        self._keys = _key_reader(of)
        self._values = _reader("value", of.value, of.value_encoding)

    def decode(
        self,
        raw_key: pa.Array,
        raw_value: pa.Array,
        kafka_ms: pa.Array,
        at_ms: int,
        headers: pa.Array | None = None,
    ) -> Decoded:
        """Decide about records, whatever they hold.

        In: raw_key, raw_value  BINARY, as Kafka has them
            kafka_ms            BIGINT, as Kafka has it
            at_ms               the commit's `ingested_at`
            headers             ARRAY<STRUCT<key: STRING, value: BINARY>>; None: no record has one
        """
        reasons = Reasons(len(raw_value))
        keys = self._read_keys(raw_key, reasons)
        values, tombstones = self._read_values(raw_value, reasons)
        if keys is not None:
            self._add_disagreements(keys.structs, values.structs, reasons)
        own_ms = kafka_ms.cast(pa.int64())
        if self._of.event_time is not None:
            own_ms = event_times(self._of.event_time, values.structs, headers)
        event_ms = self._event_ms(own_ms, tombstones, reasons, at_ms)
        asked = values.asked if keys is None else values.asked | keys.asked
        bare = ~marks_of(raw_value.is_valid()) & (values.deleted is not None)
        return Decoded(keys and keys.structs, values.structs, tombstones, bare, event_ms, reasons, asked)

    def read_keys(self, raw: pa.Array) -> pa.StructArray:
        """Keys alone, of a topic that has key columns: structs, null where there is no key or it cannot be read.

        In: raw  BINARY, as Kafka has them
        """
        keys = self._keys(raw, reasons := Reasons(len(raw)))
        return without(keys.structs, reasons.dead)

    def _read_keys(self, raw: pa.Array, reasons: Reasons) -> ReadPart | None:
        if not self._of.key:
            return None
        keys = self._keys(raw, reasons)
        for column in self._of.key:
            if not column.nullable:
                missing = _field(keys.structs, column.name).is_null()
                reasons.add(marks_of(missing), f"missing key field: {column.name} is NOT NULL")
        return keys

    def _read_values(self, raw: pa.Array, reasons: Reasons) -> tuple[ReadPart, np.ndarray]:
        """The values, and which records are tombstones."""
        values, tombstones = self._values(raw, reasons), ~marks_of(raw.is_valid())
        if values.deleted is not None:
            tombstones = tombstones | values.deleted
        for column in self._of.value:
            if not column.nullable:
                missing = ~tombstones & marks_of(_field(values.structs, column.name).is_null())
                reasons.add(missing, f"missing value field: {column.name} is NOT NULL")
        return values, tombstones

    def _add_disagreements(self, keys: pa.StructArray, values: pa.StructArray, reasons: Reasons) -> None:
        named = {column.name.lower(): column.name for column in self._of.value}
        for name in (column.name for column in self._of.key if column.name.lower() in named):
            differs = _differ(_field(keys, name), _field(values, named[name.lower()]))
            reasons.add(differs, f"disagreement: {name} differs between key and value")

    def _event_ms(
        self, event_ms: pa.Array, tombstones: np.ndarray, reasons: Reasons, at_ms: int
    ) -> np.ndarray:
        may_lack = np.zeros(len(tombstones), bool) if self._of.event_time is None else tombstones
        absent = marks_of(event_ms.is_null())
        numbers = event_ms.fill_null(0).to_numpy(zero_copy_only=False)
        reasons.add(absent & ~may_lack, f"timestamp: {self._of.timestamp or 'the record timestamp'} is null")
        reasons.add(numbers < 0, "timestamp: before 1970")
        latest_ms = min(at_ms + self._of.max_future_ms, np.iinfo(np.int64).max)
        words = f"lies more than {format_duration(self._of.max_future_ms)} ahead of its ingestion"
        ahead = np.flatnonzero(numbers > latest_ms)
        if len(ahead):
            different, which = np.unique(numbers[ahead], return_inverse=True)
            reasons.add_each(ahead, which, [f"timestamp: {_shown(ms)} {words}" for ms in different.tolist()])
        return np.where(absent, NOTHING, numbers) if absent.any() else numbers


def _key_reader(of: RecordFormat) -> Read:
    if of.scalar_key:
        return _reader("key", of.key, ValueBytes(TEXT))
    read = _reader("key", of.key, of.key_encoding)
    return with_bare_keys(of.key, read) if of.key_encoding is None else read


def _reader(what: str, columns: Sequence[Column], encoding: Encoding | None) -> Read:
    """Makes structs of bytes, null where there are none and where they are malformed."""
    fields, unknown = fields_of(columns), encoding.unknown if isinstance(encoding, JsonBytes) else None
    ddl = to_ddl([column for column in columns if column.name != unknown])
    if not isinstance(encoding, DebeziumBytes):
        return plain_reader(what, fields, ddl, encoding or JsonBytes())
    from headrace.sequence.readers.debezium import PAYLOAD, DebeziumReader, envelope_fields, unwrapped_keys

    if what == "value":
        envelopes = plain_reader(what, envelope_fields(encoding, fields), ddl, encoding.inner)
        return DebeziumReader(encoding, fields, envelopes).read
    if PAYLOAD in [field.name for field in fields]:
        return plain_reader(what, fields, ddl, encoding.inner)
    keys = plain_reader(what, [*fields, pa.field(PAYLOAD, pa.struct(fields))], ddl, encoding.inner)
    return lambda raw, reasons: unwrapped_keys(keys(raw, reasons))


def plain_reader(what: str, fields: Sequence[pa.Field], ddl: str, encoding: PlainEncoding) -> Read:
    """Reads bytes into structs of some fields. In: what, ddl  the part and what was declared, as reasons say them."""
    # The libraries of formats are loaded where there are such records.
    match encoding:
        case AvroBytes():
            from headrace.sequence.avro.reader import AvroReader

            return AvroReader(encoding, fields, what).read
        case ProtobufBytes():
            from headrace.sequence.protobuf.reader import ProtobufReader

            return ProtobufReader(encoding, fields, what).read
        case CsvBytes():
            from headrace.sequence.readers.csv_reader import CsvReader

            return CsvReader(encoding, fields, ddl, what).read
        case ValueBytes():
            return PlainValueReader(encoding, fields[0], what).read
        case JsonBytes():
            return JsonReader(encoding, fields, ddl, what).read


def without(structs: pa.StructArray, gone: np.ndarray) -> pa.StructArray:
    """The structs, null in some rows."""
    if not gone.any():
        return structs
    gone = gone | structs.is_null().to_numpy(zero_copy_only=False)
    return pa.StructArray.from_arrays(structs.flatten(), fields=list(structs.type), mask=pa.array(gone))


def _field(structs: pa.StructArray, name: str) -> pa.Array:
    """A field of structs, null where the struct is."""
    return structs.flatten()[structs.type.get_field_index(name)]


def _differ(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Which values differ, both being there; NaN is NaN, and -0.0 is 0.0."""
    both = pc.and_(left.is_valid(), right.is_valid())
    if pa.types.is_nested(left.type) or pa.types.is_floating(left.type):
        left, right = encode(left), encode(right)
    return marks_of(pc.and_(both, pc.not_equal(left, right)))


def _shown(ms: int) -> str:
    """A moment as people write it, without trailing zeros; as the number that it is, if the calendar ends before it."""
    if ms > LAST_TIMESTAMP_MS:
        return f"{ms} ms"
    text = str(np.datetime64(ms, "ms")).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text
