"""The formats of the fuzzer: of each what a record is made of, and what plain Python reads of any bytes."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import fastavro
from google.protobuf.message import DecodeError

import headrace as hr
from tests.laws.kernel.avro_values import encoded
from tests.laws.kernel.json_texts import COLUMNS as JSON_COLUMNS
from tests.laws.kernel.json_texts import an_object
from tests.laws.kernel.protobuf_values import Field, compiled, field, message
from tests.oracle import json_oracle

BLANKS = " \t\r\n"
EPOCH = dt.datetime(1970, 1, 1)
MALFORMED = "malformed"
COLUMNS: dict[str, Any] = {"s": "STRING", "l": "BIGINT", "t": "TIMESTAMP"}
TEXTS = ("", "a", "é", "漢\U0001f600", 'say "x"', "a,b", "\\", "two\nlines", "\x00")
NUMBERS = (0, 1, -1, 2**63 - 1, -(2**63))
TIMES_MS = (0, 1, 1_714_564_800_123, -62_135_596_800_000, 253_402_300_799_999)
BEYOND_MS = (253_402_300_800_000, -62_135_596_800_001)  # the years 10000 and 0
LONGS: Any = {"type": "record", "name": "r", "fields": [
    {"name": "s", "type": ["null", "string"]}, {"name": "l", "type": "long"}, {"name": "t", "type": ["null", "long"]},
]}  # fmt: skip
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
AVRO = {**LONGS, "fields": [*LONGS["fields"][:2], {"name": "t", "type": ["null", MILLIS]}]}
MESSAGE = compiled(message("R", field("s", 1, Field.TYPE_STRING), field("l", 2, Field.TYPE_INT64), field("t", 3, "google.protobuf.Timestamp")))["p.R"]  # fmt: skip
ENVELOPE = {"op": "STRING", "after": ("STRUCT", COLUMNS)}
Row = dict[str, Any]


@dataclass(frozen=True)
class Fuzz:
    """A format of values.

    format   of the topic
    columns  of its values, as the oracle of JSON names types
    make     bytes of the grammar; most of them can be read
    read     the columns of any bytes; a text: they are malformed
    plain    bytes that can be read, which come often
    """

    format: Any
    columns: Mapping[str, Any]
    make: Callable[[Random], bytes]
    read: Callable[[bytes], Row | str]
    plain: bytes


def read_json(raw: bytes, columns: Mapping[str, Any]) -> Row | str:
    """The values of the columns in a JSON object."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return MALFORMED
    sys.setrecursionlimit(20_000)  # the oracle goes down with the nesting of a text
    trimmed = text.strip(BLANKS)
    if not (trimmed.startswith("{") and trimmed.endswith("}")):
        return MALFORMED
    return json_oracle.read(text, columns)


def _moment(random: Random) -> int | None:
    draw = random.random()
    return None if draw < 0.2 else random.choice(BEYOND_MS if draw < 0.3 else TIMES_MS)


def _time(micros: int | None) -> dt.datetime | None:
    """Raises: OverflowError beyond the years 1 to 9999."""
    return None if micros is None else EPOCH + dt.timedelta(microseconds=micros)


def _avro(random: Random) -> bytes:
    text = random.choice([None, *TEXTS])
    return encoded(LONGS, {"s": text, "l": random.choice(NUMBERS), "t": _moment(random)})


def _read_avro(raw: bytes) -> Row | str:
    stream = io.BytesIO(raw)
    try:
        found: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(LONGS), None)
        at = _time(None if found["t"] is None else found["t"] * 1_000)
    except Exception:  # fastavro has many for what is no record
        return MALFORMED
    return MALFORMED if stream.read(1) else {**found, "t": at}


def _protobuf(random: Random) -> bytes:
    made, moment = MESSAGE(s=random.choice(TEXTS), l=random.choice(NUMBERS)), _moment(random)
    if moment is not None:
        made.t.seconds, made.t.nanos = moment // 1_000, moment % 1_000 * 1_000_000 + 999
    content: bytes = made.SerializeToString()
    return content


def _read_protobuf(raw: bytes) -> Row | str:
    try:
        found = MESSAGE.FromString(raw)
        micros = found.t.seconds * 1_000_000 + found.t.nanos // 1_000 if found.HasField("t") else None
        return {"s": found.s, "l": found.l, "t": _time(micros)}
    except (DecodeError, OverflowError):
        return MALFORMED


def _csv(random: Random) -> bytes:
    out, moment = io.StringIO(), _moment(random)
    quoting: Any = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
    time = "" if moment is None or moment in BEYOND_MS else EPOCH + dt.timedelta(milliseconds=moment)
    row = [random.choice(TEXTS), random.choice([*NUMBERS, "", "01"]), time]
    end = random.choice(["\n", "\r\n"])
    csv.writer(out, quoting=quoting, lineterminator=end).writerow(row[: random.choice([2, 3, 3, 3, 3, 3])])
    return out.getvalue().encode()


def _read_csv(raw: bytes) -> Row | str:
    try:
        line = raw.decode()
    except UnicodeDecodeError:
        return MALFORMED
    fields = _fields(line[: -2 if line.endswith("\r\n") else -1 if line.endswith("\n") else len(line)])
    if fields is None or len(fields) != len(COLUMNS):
        return MALFORMED
    values: list[Any] = []
    for (text, quoted), of in zip(fields, COLUMNS.values(), strict=True):
        bare = of == "BIGINT" and not quoted and json_oracle.NUMBER.fullmatch(text)
        values.append(json_oracle.Written(text) if bare else None if text == "" and not quoted else text)
    try:
        return {n: json_oracle.typed(v, of) for (n, of), v in zip(COLUMNS.items(), values, strict=True)}
    except json_oracle.Refused:
        return MALFORMED


def _fields(line: str) -> list[tuple[str, bool]] | None:
    """The fields of a line letter by letter, and whether each is quoted; None: it is no line (RFC 4180)."""
    fields, at = list[tuple[str, bool]](), 0
    while True:
        text, quoted = "", line[at : at + 1] == '"'
        at += quoted
        while at < len(line):
            if quoted and line[at] == '"':
                if line[at + 1 : at + 2] != '"':
                    break
                at += 1
            elif not quoted and line[at] in ',"\r\n':
                break
            text, at = text + line[at], at + 1
        if quoted and line[at : at + 1] != '"':
            return None
        at += quoted
        fields.append((text, quoted))
        if at == len(line):
            return fields
        if line[at] != ",":
            return None
        at += 1


def _text(random: Random) -> bytes:
    return random.choice(TEXTS).encode() + random.choice([b"", b"", b"", b"\xff"])


def _read_text(raw: bytes) -> Row | str:
    try:
        return {"s": raw.decode()}
    except UnicodeDecodeError:
        return MALFORMED


def _number(random: Random) -> bytes:
    return random.choice(NUMBERS).to_bytes(8, "big", signed=True)[: random.choice([8, 8, 8, 4, 0])]


def _read_number(raw: bytes) -> Row | str:
    return {"s": int.from_bytes(raw, "big", signed=True)} if len(raw) == 8 else MALFORMED


def _debezium(random: Random) -> bytes:
    op = random.choice("crud")
    after = None if op == "d" or random.random() < 0.05 else an_object(random, COLUMNS)
    told = json.dumps(random.choice([op, op, op, op, op, op, "t", "m", None]))
    envelope = f'{{"before": null, "op": {told}, "after": {after or "null"}, "source": {{"ts_ms": 5}}}}'
    if random.random() < 0.3:
        envelope = f'{{"schema": {{"type": "struct"}}, "payload": {envelope}}}'
    return envelope.encode("utf-8", "surrogatepass")


def _read_debezium(raw: bytes) -> Row | str:
    found = read_json(raw, {**ENVELOPE, "payload": ("STRUCT", ENVELOPE)})
    if isinstance(found, str):
        return found
    envelope = found["payload"] or found
    row: Row | None = envelope["after"]
    match envelope["op"]:
        case "r" | "c" | "u" if row is not None:
            return row
        case "d":
            return row or dict.fromkeys(COLUMNS)
    return MALFORMED


FORMATS: dict[str, Fuzz] = {
    "json": Fuzz(
        "json",
        JSON_COLUMNS,
        lambda random: an_object(random, JSON_COLUMNS).encode("utf-8", "surrogatepass"),
        lambda raw: read_json(raw, JSON_COLUMNS),
        b'{"s": "a", "l": 7}',
    ),
    "avro": Fuzz(
        hr.Avro(schema=AVRO), COLUMNS, _avro, _read_avro, encoded(LONGS, {"s": "a", "l": 7, "t": 5})
    ),
    "protobuf": Fuzz(hr.Protobuf(MESSAGE), COLUMNS, _protobuf, _read_protobuf, b"\n\1a\x10\7"),
    "csv": Fuzz(hr.Csv(), COLUMNS, _csv, _read_csv, b"a,7,"),
    "bytes": Fuzz(hr.Bytes(), {"s": "BINARY"}, _text, lambda raw: {"s": raw}, b"\x00\xff"),
    "number": Fuzz(hr.Number("int64"), {"s": "BIGINT"}, _number, _read_number, (1234).to_bytes(8, "big")),
    "text": Fuzz(hr.Text(), {"s": "STRING"}, _text, _read_text, b"15:00:01 ERROR checkout"),
    "debezium": Fuzz(
        hr.Debezium(), COLUMNS, _debezium, _read_debezium, b'{"op": "u", "after": {"s": "a", "l": 7}}'
    ),
}
