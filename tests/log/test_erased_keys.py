"""A key to be erased is written as people write it, whatever its format in Kafka."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description.formats.registry import RegisteredSchema
from headrace.errors import TerminalError
from headrace.log.history import erasure
from headrace.sequence.encodings import KnownSchemas
from headrace.sequence.formats import RecordFormat
from headrace.sequence.readers import gunzip
from tests.laws.kernel.avro_values import encoded

pytestmark = pytest.mark.fast

URL = "http://registry:8081"
PAIR = {
    "type": "record",
    "name": "k",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
}


def test_a_key_that_is_avro_is_found_by_what_it_says() -> None:
    longer = {**PAIR, "fields": [{"name": "b", "type": "string"}, {"name": "a", "type": "int"}]}
    topic = hr.Topic("t", value="n INT", key_format=hr.Avro(schema=PAIR, registry=URL))
    schemas = {(URL, n): RegisteredSchema("AVRO", json.dumps(s)) for n, s in ((1, PAIR), (2, longer))}
    of, said = RecordFormat.of(topic, KnownSchemas(schemas)), erasure._written_format(topic)
    raw = erasure.key_bytes(topic, '{"b": "x", "a": 5}')
    assert erasure.key_values(topic, raw) == {"a": "5", "b": "x"}
    keys = pa.array(
        [{"a": 5, "b": "x"}, {"a": 5, "b": "y"}], pa.struct([("a", pa.int32()), ("b", pa.string())])
    )
    assert erasure._has_key(said, raw)(keys).to_pylist() == [True, False]
    five, six = {"a": 5, "b": "x"}, {"a": 6, "b": "x"}
    came = [
        b"\0\0\0\0\1" + encoded(PAIR, five),
        b"\0\0\0\0\2" + encoded(longer, five),
        b"\0\0\0\0\1" + encoded(PAIR, six),
    ]
    marks = erasure._keys_as_sent(of, said, raw)(pa.array([*came, b"\0\0\0\0\3", b"x", None], pa.binary()))
    assert [bool(mark) for mark in marks.to_pylist()] == [True, True, False, False, False, False]
    with pytest.raises(TerminalError, match="is no key of it"):
        erasure.key_bytes(topic, "x")


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (
            '{"client": "c1", "postion": 4}',
            "it has no value of position, and 'postion' is no column of the key",
        ),
        ('{"client": "c1"}', "it has no value of position"),
        ('{"client": "c1", "position": 4, "v": 1}', "'v' is no column of the key"),
        ('{"client": "c1", "position": 4, "position": 5}', "it has several values of position"),
        ('{"client": "c1", "position": 4, "place": {"x": 1}}', "'place' is no column of the key"),
        ("4", "is no key of it"),
    ],
)
def test_a_key_of_several_columns_has_exactly_these(key: str, told: str) -> None:
    """Before, a column that was left out or misspelt stood for null: another key was erased."""
    topic = hr.Topic("t", key="client STRING, position INT", value="v INT")
    with pytest.raises(TerminalError, match=re.escape(told)) as found:
        erasure.key_bytes(topic, key)
    assert "`client` STRING, `position` INT" in str(found.value)
    raw = erasure.key_bytes(topic, '{"client": "c1", "position": null}')
    has = erasure._has_key(erasure._written_format(topic), raw)
    keys = [{"client": "c1", "position": position} for position in (None, 4)]
    assert has(
        pa.array(keys, pa.struct([("client", pa.string()), ("position", pa.int32())]))
    ).to_pylist() == [
        True,
        False,
    ]


def test_the_fields_of_a_column_of_a_key_are_written_out_too() -> None:
    """Before, a field that was left out or misspelt stood for null: another key was erased."""
    topic = hr.Topic("t", key="place STRUCT<x: INT, y: INT>", value="v INT")
    assert erasure.key_bytes(topic, '{"place": {"x": 1, "y": null}}')
    with pytest.raises(
        TerminalError, match=r"it has no value of place\.y, and 'place\.z' is no column of the key"
    ):
        erasure.key_bytes(topic, '{"place": {"x": 1, "z": 2}}')


def test_a_key_of_one_column_is_its_value_or_an_object() -> None:
    topic = hr.Topic("t", key="id BIGINT", value="v INT")
    assert erasure.key_values(topic, erasure.key_bytes(topic, "12")) == {"id": "12"}
    assert erasure.key_values(topic, erasure.key_bytes(topic, '{"id": 12}')) == {"id": "12"}
    with pytest.raises(TerminalError, match="'ID' is no column"):
        erasure.key_bytes(topic, '{"ID": 12}')


def test_a_key_of_one_text_is_written_as_that_text() -> None:
    topic = hr.Topic("t", key="id STRING", value="n INT", key_format=hr.Avro(schema="string"))
    raw = erasure.key_bytes(topic, "a key")
    assert erasure.key_values(topic, raw) == {"id": "a key"}
    of, said = RecordFormat.of(topic), erasure._written_format(topic)
    came = pa.array([encoded("string", "a key"), b"a key"])
    assert erasure._keys_as_sent(of, said, raw)(came).to_pylist() == [True, False]


def test_compressed_keys_are_read_in_pieces_that_are_bounded_without_compression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = hr.Topic("t", key="id STRING", value="n INT", key_format=hr.Json(gzip=True))
    raw = erasure.key_bytes(topic, "a")
    large = gzip.compress(b'{"id": "a"' + b" " * 2_000 + b"}")
    came = [large, b'{"id": "a"}', gzip.compress(b'{"id": "b"}'), None, large, large[:-9]]
    sizes: list[int] = []
    unpack = gunzip.in_pieces

    def counted(*given: Any) -> Iterator[pa.Table]:
        for piece in unpack(*given):
            sizes.append(int(gunzip.unpacked_sizes(piece["key"]).sum()))
            yield piece

    monkeypatch.setattr(erasure, "in_pieces", counted)
    monkeypatch.setattr(erasure, "UNPACKED_BYTES_MAX", 2_100)
    marks = erasure._keys_as_sent(RecordFormat.of(topic), erasure._written_format(topic), raw)
    found = marks(pa.array(came, pa.binary()))
    assert [bool(mark) for mark in found.to_pylist()] == [True, True, False, False, True, False]
    assert len(sizes) == 3
    assert max(sizes[:2]) <= 2_100
    assert marks(pa.array([], pa.binary())).to_pylist() == []
