"""The places of causes: they compare as the causes of rows of one clock do, and hold no bytes of a key. No Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.fold.contract import CAUSE, KEY
from headrace.fold.records import ELEMENT
from headrace.operators.contract import POSITION
from headrace.operators.processors.fold.forwarded import DUE, GROUP_HASH, NUMBER
from headrace.operators.stream_joins.fold.result_rows import PARTNER
from headrace.writing.node_logs.causes import places_of

pytestmark = pytest.mark.fast

PLACE = pa.schema([("__topic", pa.string()), ("__partition", pa.int32()), ("__offset", pa.int64())])
OF_PARTNER = pa.schema(zip(PARTNER, PLACE.types, strict=True))


def places(schema: pa.Schema, columns: tuple[str, ...], *rows: tuple[Any, ...]) -> list[bytes]:
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    found: list[bytes] = places_of(table, columns).to_pylist()
    return found


def test_records_go_by_topic_partition_and_offset_then_elements() -> None:
    schema = pa.schema([*PLACE, (ELEMENT, pa.int32())])
    rows = [
        ("a", 0, 255, 0),
        ("a", 0, 256, 0),
        ("a", 0, 256, 1),
        ("a", 2, 0, 0),
        ("a", 10, 0, 0),
        ("b", 0, 0, 0),
    ]
    found = places(schema, (*POSITION, ELEMENT), *rows)
    assert found == sorted(found)
    assert len({*found}) == len(rows)


def test_the_place_of_a_cause_stands_in_for_the_position_of_a_nodes_row() -> None:
    schema = pa.schema([*PLACE, (CAUSE, pa.binary())])
    first, second, own = places(
        schema, POSITION, ("node", 0, 1, b"later"), ("node", 0, 2, b"earlier"), ("topic", 0, 3, None)
    )
    assert (first, second) == (b"later", b"earlier")
    assert own == places(PLACE, POSITION, ("topic", 0, 3))[0]


def test_a_pair_has_one_place_whichever_record_came_later() -> None:
    schema = pa.schema([*PLACE, *OF_PARTNER])
    one, other, alone = places(
        schema,
        (*POSITION, *PARTNER),
        ("l", 0, 1, "r", 0, 7),
        ("r", 0, 7, "l", 0, 1),
        ("l", 0, 1, None, None, None),
    )
    assert one == other
    assert alone != one


def test_of_a_call_rows_go_by_number_and_timers_come_before_records() -> None:
    schema = pa.schema([(GROUP_HASH, pa.int64()), (DUE, pa.int64()), *PLACE, (NUMBER, pa.int64())])
    columns = (GROUP_HASH, DUE, *POSITION, NUMBER)
    timers = [(-5, 100, None, None, None, 0), (-5, 100, None, None, None, 1)]
    records = [(-5, None, "t", 0, 1, 0), (-5, None, "t", 0, 1, 1), (-5, None, "t", 0, 2, 0)]
    found = places(schema, columns, *timers, *records, (3, 100, None, None, None, 0))
    assert found == sorted(found)
    assert len({*found}) == 6


def test_the_bytes_of_a_key_are_not_in_it() -> None:
    (found,) = places(pa.schema([(KEY, pa.binary())]), (KEY,), (b"ann@example.com",))
    assert len(found) == 8
