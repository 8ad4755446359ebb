"""Erasure of a key in the log: the rows of its records stay, their content becomes null.

Law: a row keeps what others rest on (kind, position, commit time, event time, stream time, the source chain and its
verdict), so offsets, stream time, the replay guard and the books stay as they are. Its key, value, headers, raw bytes
and size are null, its reason is `erased`. An operator sees a record that met the fate `erased`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace.description import to_ddl
from headrace.description.schema import fields_of_struct
from headrace.errors import TerminalError
from headrace.fold.values.encode import encode
from headrace.log.record_task import UNPACKED_BYTES_MAX
from headrace.sequence.decode import Decoder
from headrace.sequence.encodings import KnownSchemas
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import DEAD_LETTER, ERASED, RECORD, log_schema
from headrace.sequence.readers.gunzip import in_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column as Expr

    from headrace.description import Column, Topic

KEY = "key"
BLANKED = ("key", "value", "headers", "size_bytes", "raw_key", "raw_value")


def key_bytes(topic: Topic, key: str) -> bytes:
    """A key as it is sent to Kafka.

    In:     key  the text of a one-column STRING key, the JSON value of another column, else a JSON object with exactly the
                 key's columns
    Out:    of a key in another format that text, value or object: it is compared by what it says
    Raises: TerminalError when the topic has no key, or this is none of it.
    """
    if not topic.key_columns:
        raise TerminalError(
            f"Topic '{topic.name}' has no key: records cannot be erased by one.",
            hint="Describe its key: hr.Topic(…, key=…).",
        )
    raw = key.encode()
    if not _written_format(topic).scalar_key:
        (found,) = Decoder(_written_format(topic)).read_keys(pa.array([raw])).to_pylist()
        wrong = [] if found is None else _unlike(topic.key_columns, _json_value(key))
        if wrong or found is None or all(value is None for value in found.values()):
            why = ": " * bool(wrong) + ", and ".join(wrong)
            raise TerminalError(
                f"Topic '{topic.name}': {key!r} is no key of it{why}.",
                hint=f"Give a JSON object with the columns {to_ddl(topic.key_columns)}, and null where one is null; "
                "of one column its value is enough.",
            )
    return raw


@dataclass(frozen=True)
class _Object:
    """An object of JSON, as it is written: a name may stand there several times."""

    fields: list[tuple[str, Any]]


def _json_value(text: str) -> Any:
    """Out: what it says; objects as `_Object`; None if it is no JSON."""
    with suppress(ValueError):
        return json.loads(text, object_pairs_hook=_Object)
    return None


def _unlike(columns: Sequence[Column], written: Any, within: str = "") -> list[str]:
    """The ways in which a written key differs from the columns. Records are read with nulls then; a key would be another.

    In: written  the object, or what may stand in its place: the value of one column, null
        within   the column whose fields these are, and a dot
    """
    if not isinstance(written, _Object):
        return []
    names = [name for name, _ in written.fields]
    known = {column.name: column for column in columns}
    wrong = [f"it has no value of {within}{name}" for name in known if name not in names]
    wrong += [f"it has several values of {within}{name}" for name in known if names.count(name) > 1]
    wrong += [f"'{within}{name}' is no column of the key" for name in names if name not in known]
    for name, value in written.fields:
        if fields := name in known and fields_of_struct(known[name].type, name):
            wrong += _unlike(fields, value, f"{within}{name}.")
    return wrong


def is_of_key(topic: Topic, raw: bytes, known: KnownSchemas | None = None) -> Expr:
    """Whether a row of the log is a record of this key, or a dead letter that came under it.

    In: raw    what `key_bytes` gave
        known  the schemas of the log
    """
    of, said, came = RecordFormat.of(topic, known), _written_format(topic), F.col("raw_key")
    typed = (F.col("kind") == RECORD) & F.col("key").isNotNull() & _marking(_has_key(said, raw))(F.col("key"))
    undecoded = (came == F.lit(raw)) | _marking(_keys_as_sent(of, said, raw))(came)
    return typed | ((F.col("kind") == DEAD_LETTER) & came.isNotNull() & undecoded)


def blanked(topic: Topic) -> Mapping[str, Expr]:
    """The new values of an erased row's columns; other columns keep their values."""
    there = log_schema(topic).names
    nothing = {name: F.lit(None) for name in BLANKED if name in there}  # the table has the types
    return nothing | {"reason": F.lit(ERASED)}


def key_values(topic: Topic, raw: bytes) -> Mapping[str, str]:
    """The columns of a key as they stand in JSON, by name."""
    if _written_format(topic).scalar_key:
        return {topic.key_columns[0].name: raw.decode()}
    written = json.loads(raw)
    values = written if isinstance(written, dict) else {topic.key_columns[0].name: written}
    return {column.name: _text(values[column.name]) for column in topic.key_columns}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _written_format(topic: Topic) -> RecordFormat:
    """The format in which people write a key."""
    return replace(RecordFormat.of(topic), key_encoding=None)


def _has_key(of: RecordFormat, raw: bytes) -> Callable[[pa.Array], pa.Array]:
    """Which typed keys are the one that these bytes stand for."""
    wanted = encode(Decoder(of).read_keys(pa.array([raw])))[0]
    return lambda keys: pc.equal(encode(keys), wanted)


def _keys_as_sent(of: RecordFormat, written: RecordFormat, raw: bytes) -> Callable[[pa.Array], pa.Array]:
    """Which keys, as Kafka had them, are this one; those that cannot be read are not."""
    wanted = encode(Decoder(written).read_keys(pa.array([raw])))[0]

    def marked(raw_keys: pa.Array) -> pa.Array:
        keys = Decoder(of).read_keys(raw_keys)
        return pc.and_(keys.is_valid(), pc.equal(encode(keys), wanted))

    def marks(keys: pa.Array) -> pa.Array:
        records = pa.table({KEY: keys.cast(pa.binary())})
        pieces = in_pieces(records, {KEY}.intersection(of.compressed), UNPACKED_BYTES_MAX)
        return pa.concat_arrays([marked(piece[KEY].combine_chunks()) for piece in pieces])

    return marks


def _marking(function: Callable[[pa.Array], pa.Array]) -> Callable[[Expr], Expr]:
    """A function of columns in Arrow as one of Spark's."""

    def marks(column: pa.Array) -> pa.Array:
        return function(column)

    marks.__annotations__ = {
        "column": pa.Array,
        "return": pa.Array,
    }  # Spark looks for types, not for their names
    udf: Any = F.arrow_udf(marks, "boolean")  # type: ignore[attr-defined]  # PySpark's stubs lack it
    return lambda column: udf(column)
