"""Decide about records one by one: key, value, event time, or the reason why a record is a dead letter.

Law: a function of the record and of the commit time. Each kind of bad input has one reason, tried in this order; the first
that applies is recorded:
  malformed key      not UTF-8, not a JSON object, not JSON or a field does not fit, more than one JSON object;
                     of other formats see `framing` and their readers
  missing key field  of a column that is NOT NULL
  malformed value, missing value field   the same; a record without a value is a tombstone and lacks nothing
  disagreement       a column of key and value has two values, neither of them null
  timestamp          null, before 1970, or more than `max_future` beyond the commit time
(A malformed source chain comes last, see `chains`.) Any bytes, and any int64 as a Kafka timestamp, are decided about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import to_ddl
from headrace.description.durations import format_duration
from headrace.description.schema import Column
from headrace.fold.encode import encode
from headrace.sequence.encodings import AvroBytes, Encoding, FramedJson, ProtobufBytes
from headrace.sequence.event_times import event_times
from headrace.sequence.formats import RecordFormat
from headrace.sequence.framing import unframed
from headrace.sequence.parse.json_columns import ObjectReader
from headrace.sequence.parse.letters import letters_of
from headrace.sequence.parse.strict_json import BLANKS, DOES_NOT_FIT, Malformed
from headrace.sequence.parse.types import fields_of
from headrace.sequence.reasons import Reasons

NOT_UTF8, NOT_AN_OBJECT = "not UTF-8", "not a JSON object"
LAST_TIMESTAMP_MS = 253_402_300_799_999  # the end of the year 9999: beyond it no timestamp can be written
NOTHING = np.iinfo(np.int64).min  # stands for a time that is not there
Asked = frozenset[tuple[str, int]]  # see `Decoded.asked`
ROWS_MAX, BYTES_MAX = 1 << 16, 4 << 20  # of texts that are read at once


@dataclass(frozen=True)
class Decoded:
    """The columns of some records that are functions of each record.

    keys, values  structs, null where there are none; of dead letters what could be read; keys None: the topic has none
    event_ms      of each record; `NOTHING` where there is none
    reasons       of dead letters
    asked         address and id of schemas that a registry has to be asked for; if there are any, the rest does not count
    """

    keys: pa.StructArray | None
    values: pa.StructArray
    event_ms: np.ndarray
    reasons: Reasons
    asked: frozenset[tuple[str, int]] = frozenset()


class Decoder:
    """Types the records of one topic."""

    def __init__(self, of: RecordFormat) -> None:
        self._of = of
        self._key_fields, self._value_fields = fields_of(of.key), fields_of(of.value)
        self._keys = None if of.scalar_key else _object_reader("key", of.key, of.key_encoding)
        self._values = _object_reader("value", of.value, of.value_encoding)

    def decode(self, raw_key: pa.Array, raw_value: pa.Array, kafka_ms: pa.Array, at_ms: int) -> Decoded:
        """Decide about records, whatever they hold.

        In: raw_key, raw_value  BINARY, as Kafka has them
            kafka_ms            BIGINT, as Kafka has it
            at_ms               the commit's `ingested_at`
        """
        reasons = Reasons(len(raw_value))
        keys, asked = self._read_keys(raw_key, reasons)
        values, asked_too = self._read_values(raw_value, reasons)
        if keys is not None:
            self._add_disagreements(keys, values, reasons)
        event_ms = self._event_ms(kafka_ms, values, raw_value, reasons, at_ms)
        return Decoded(keys, values, event_ms, reasons, asked | asked_too)

    def read_keys(self, raw: pa.Array) -> pa.StructArray:
        """Keys alone, of a topic that has key columns: structs, null where there is no key or it cannot be read.

        In: raw  BINARY, as Kafka has them
        """
        keys, _ = self._typed_keys(raw, reasons := Reasons(len(raw)))
        return without(keys, reasons.dead)

    def _typed_keys(self, raw: pa.Array, reasons: Reasons) -> tuple[pa.StructArray, Asked]:
        if self._keys is not None:
            return self._keys(raw, reasons)
        texts, not_utf8 = _texts(raw)
        reasons.add(not_utf8, f"malformed key: {NOT_UTF8}")
        return pa.StructArray.from_arrays([texts], fields=self._key_fields, mask=raw.is_null()), frozenset()

    def _read_keys(self, raw: pa.Array, reasons: Reasons) -> tuple[pa.StructArray | None, Asked]:
        if not self._of.key:
            return None, frozenset()
        keys, asked = self._typed_keys(raw, reasons)
        for column in self._of.key:
            if not column.nullable:
                missing = _field(keys, column.name).is_null()
                reasons.add(_marks(missing), f"missing key field: {column.name} is NOT NULL")
        return keys, asked

    def _read_values(self, raw: pa.Array, reasons: Reasons) -> tuple[pa.StructArray, Asked]:
        values, asked = self._values(raw, reasons)
        for column in self._of.value:
            if not column.nullable:
                missing = pc.and_(raw.is_valid(), _field(values, column.name).is_null())
                reasons.add(_marks(missing), f"missing value field: {column.name} is NOT NULL")
        return values, asked

    def _add_disagreements(self, keys: pa.StructArray, values: pa.StructArray, reasons: Reasons) -> None:
        named = {column.name.lower(): column.name for column in self._of.value}
        for name in (column.name for column in self._of.key if column.name.lower() in named):
            differs = _differ(_field(keys, name), _field(values, named[name.lower()]))
            reasons.add(differs, f"disagreement: {name} differs between key and value")

    def _event_ms(
        self, kafka_ms: pa.Array, values: pa.StructArray, raw: pa.Array, reasons: Reasons, at_ms: int
    ) -> np.ndarray:
        event_ms = kafka_ms.cast(pa.int64())
        if self._of.event_time is not None:
            event_ms = pc.if_else(raw.is_valid(), event_times(self._of.event_time, values), event_ms)
        absent = _marks(event_ms.is_null())
        numbers = event_ms.fill_null(0).to_numpy(zero_copy_only=False)
        reasons.add(absent, f"timestamp: {self._of.timestamp or 'the record timestamp'} is null")
        reasons.add(numbers < 0, "timestamp: before 1970")
        latest_ms = min(at_ms + self._of.max_future_ms, np.iinfo(np.int64).max)
        words = f"lies more than {format_duration(self._of.max_future_ms)} ahead of its ingestion"
        ahead = np.flatnonzero(numbers > latest_ms)
        if len(ahead):
            different, which = np.unique(numbers[ahead], return_inverse=True)
            reasons.add_each(ahead, which, [f"timestamp: {_shown(ms)} {words}" for ms in different.tolist()])
        return np.where(absent, NOTHING, numbers) if absent.any() else numbers


def _object_reader(
    what: str, columns: Sequence[Column], encoding: Encoding | None
) -> Callable[[pa.Array, Reasons], tuple[pa.StructArray, Asked]]:
    """What makes structs of bytes, null where there are none and where they are malformed."""
    fields = fields_of(columns)
    # The libraries of formats are loaded where there are such records.
    if isinstance(encoding, AvroBytes):
        from headrace.sequence.avro.reader import AvroReader

        return AvroReader(encoding, fields, what).read
    if isinstance(encoding, ProtobufBytes):
        from headrace.sequence.protobuf.reader import ProtobufReader

        return ProtobufReader(encoding, fields, what).read
    reader, framed = ObjectReader(fields), isinstance(encoding, FramedJson)

    def read(raw: pa.Array, reasons: Reasons) -> tuple[pa.StructArray, Asked]:
        raw = unframed(raw, what, reasons) if framed else raw
        return _read_objects(raw, reader, what, columns, reasons), frozenset()

    return read


def without(structs: pa.StructArray, gone: np.ndarray) -> pa.StructArray:
    """The structs, null in some rows."""
    if not gone.any():
        return structs
    gone = gone | structs.is_null().to_numpy(zero_copy_only=False)
    return pa.StructArray.from_arrays(structs.flatten(), fields=list(structs.type), mask=pa.array(gone))


def _read_objects(
    raw: pa.Array, reader: ObjectReader, what: str, columns: Sequence[Column], reasons: Reasons
) -> pa.StructArray:
    """Bytes as structs; null where there are none, and where they are malformed."""
    ddl = to_ddl(columns)
    parts = [_read_chunk(chunk, reader) for chunk in _in_chunks(raw)]
    begin = 0
    for part in parts:
        size = len(part.structs)
        for marks, why in ((part.not_utf8, NOT_UTF8), (part.no_object, NOT_AN_OBJECT)):
            if marks is not None:
                reasons.add_from(begin, marks, f"malformed {what}: {why}")
        for row, problem in part.malformed.items():
            reasons.add_one(begin + row, f"malformed {what}: {_worded(problem, ddl)}")
        begin += size
    if len(parts) == 1:
        return parts[0].structs
    return pa.concat_arrays([part.structs for part in parts])


def _worded(why: Malformed, ddl: str) -> str:
    declared = ddl if why.why == DOES_NOT_FIT else ""
    return f"{why.why}{declared}" + (f" ({why.detail})" if why.detail else "")


@dataclass(frozen=True)
class _Read:
    structs: pa.StructArray
    not_utf8: np.ndarray | None
    no_object: np.ndarray | None
    malformed: Mapping[int, Malformed]


def _read_chunk(raw: pa.Array, reader: ObjectReader) -> _Read:
    texts, not_utf8 = _texts(raw)
    if not texts.null_count and _are_objects(texts):
        found = reader.read(texts)
        return _Read(found.structs, None, None, found.malformed)
    trimmed = pc.ascii_trim(texts, BLANKS)
    looks = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    objects = _marks(looks)
    rows = np.flatnonzero(objects)
    found = reader.read(texts.take(pa.array(rows)))
    place = np.cumsum(objects) - 1
    structs = found.structs.take(pa.array(place, mask=~objects))
    malformed = {int(rows[row]): why for row, why in found.malformed.items()}
    return _Read(structs, not_utf8, _marks(pc.invert(looks)), malformed)


def _in_chunks(raw: pa.Array) -> Iterator[pa.Array]:
    """Records in stretches of neighbours, none of them large; one at least, which may be empty."""
    ends = (
        np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + len(raw) + 1]
        if len(raw)
        else np.zeros(1)
    )
    begin = 0
    while True:
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + BYTES_MAX, side="right")) - 1)
        end = min(end, begin + ROWS_MAX, len(raw))
        yield raw.slice(begin, end - begin)
        if end == len(raw):
            return
        begin = end


def _texts(raw: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Bytes as text, null where they are not UTF-8; and where that is."""
    try:
        return raw.cast(pa.string()), np.zeros(len(raw), bool)
    except pa.ArrowInvalid:
        bad = np.zeros(len(raw), bool)
        for row in _beyond_ascii(raw).tolist():
            bad[row] = not _is_utf8(raw[row].as_py())
        return pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), raw).cast(pa.string()), bad


def _beyond_ascii(raw: pa.Array) -> np.ndarray:
    """The rows with a byte that is not ASCII."""
    ends, letters = letters_of(raw)
    rows = np.unique(np.searchsorted(ends, np.flatnonzero(letters >= 0x80), side="right") - 1)
    found: np.ndarray = rows[raw.is_valid().to_numpy(zero_copy_only=False)[rows]]
    return found


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _are_objects(texts: pa.Array) -> bool:
    return pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py() is not False


def _field(structs: pa.StructArray, name: str) -> pa.Array:
    """A field of structs, null where the struct is."""
    return structs.flatten()[structs.type.get_field_index(name)]


def _differ(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Which values differ, both being there; NaN is NaN, and -0.0 is 0.0."""
    both = pc.and_(left.is_valid(), right.is_valid())
    if pa.types.is_nested(left.type) or pa.types.is_floating(left.type):
        left, right = encode(left), encode(right)
    return _marks(pc.and_(both, pc.not_equal(left, right)))


def _marks(mask: pa.Array) -> np.ndarray:
    found: np.ndarray = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _shown(ms: int) -> str:
    """A moment as people write it, without trailing zeros; as the number that it is, if the calendar ends before it."""
    if ms > LAST_TIMESTAMP_MS:
        return f"{ms} ms"
    text = str(np.datetime64(ms, "ms")).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text
