"""What a source-chain header says: root, ordinals and path, or why it is malformed."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.replays.guards import new_guard
from headrace.sequence.sequence_records import Sequencer

pytestmark = pytest.mark.fast

NOW_MS = 1_800_000_000_000
GUARDED = hr.Topic("screws", value="n INT", replay_guard=hr.ReplayGuard())
PARTITION = 3
Headers = list[tuple[str, bytes | None]] | None
NINES = "999999999"


def chain(*entries: Any) -> Headers:
    return [("source-chain", json.dumps(entries).encode())]


def text(header: str | bytes) -> Headers:
    return [("source-chain", header if isinstance(header, bytes) else header.encode())]


# name: headers, and what is expected: root topic, partition, offset (None: the record's own), ordinals, path
WELL_FORMED: dict[str, tuple[Headers, tuple[str, int, int | None, list[int], str]]] = {
    "no headers": (None, ("screws", 3, None, [], "screws/3")),
    "another header": ([("trace", b"[1]")], ("screws", 3, None, [], "screws/3")),
    "one hop": (chain(["orders", 0, 12]), ("orders", 0, 12, [-1], "orders/0>screws/3")),
    "an ordinal": (chain(["orders", 1, 12, 0]), ("orders", 1, 12, [0], "orders/1>screws/3")),
    "two hops, one flat-mapped": (
        chain(["orders", 0, 12], ["parts", 1, 40, 2]),
        ("orders", 0, 12, [-1, 2], "orders/0>parts/1>screws/3"),
    ),
    "two hops, blanks and two ordinals": (
        text('[["orders" , 0 , 12 , 3] ,\n["parts" , 1 , 40 ,\t2]]'),
        ("orders", 0, 12, [3, 2], "orders/0>parts/1>screws/3"),
    ),
    "three hops": (
        chain(["orders", 0, 12], ["parts", 1, 40, 2], ["bolts", 2, 7]),
        ("orders", 0, 12, [-1, 2, -1], "orders/0>parts/1>bolts/2>screws/3"),
    ),
    "three hops, blanks and two ordinals": (
        text('[["a" , 0 , 7 , 1 ] ,\n[ "b",0,1\t] , ["c", 1, 3 ,\t2 ] ] '),
        ("a", 0, 7, [1, -1, 2], "a/0>b/0>c/1>screws/3"),
    ),
    "a loop": (chain(["screws", 3, 5]), ("screws", 3, 5, [-1], "screws/3>screws/3")),
    "a topic with digits and a dash": (
        chain(["orders-1", 0, 12], ["1.a_B", 0, 0]),
        ("orders-1", 0, 12, [-1, -1], "orders-1/0>1.a_B/0>screws/3"),
    ),
    "blanks": (text(' [\n[ "a" ,\t0 , 7 , 1 ] ] '), ("a", 0, 7, [1], "a/0>screws/3")),
    "the largest numbers": (
        text(f'[["a",{NINES},{NINES * 2},{NINES}]]'),
        ("a", int(NINES), int(NINES * 2), [int(NINES)], f"a/{NINES}>screws/3"),
    ),
    "the last of two headers": (
        [("source-chain", b"nonsense"), ("source-chain", b'[["a",0,7]]'), ("z", b"")],
        ("a", 0, 7, [-1], "a/0>screws/3"),
    ),
    "a hundred hops": (
        chain(*(["a", 0, n] for n in range(100))),
        ("a", 0, 0, [-1] * 100, "a/0>" * 100 + "screws/3"),
    ),
}
MALFORMED: dict[str, Headers] = {
    "null": [("source-chain", None)],
    "empty": text(""),
    "not JSON": text("orders/0/12"),
    "not UTF-8": text(b'[["\xff", 0, 1]]'),
    "an object": text('{"topic": "orders"}'),
    "an empty list": text("[]"),
    "an entry alone": text('["orders", 0, 12]'),
    "an empty entry": text("[[]]"),
    "no offset": chain(["orders", 0]),
    "too much in an entry": chain(["orders", 0, 12, 0, 0]),
    "the offset as text": chain(["orders", 0, "12"]),
    "the topic as a number": chain([7, 0, 12]),
    "no topic": chain(["", 0, 12]),
    "no topic name of Kafka's": chain(["orders/0", 0, 12]),
    "a broken number": chain(["orders", 0, 12.5]),
    "a negative offset": chain(["orders", 0, -1]),
    "leading zeros": text('[["orders", 0, 012]]'),
    "a number too large": text('[["orders", 0, 9223372036854775808]]'),
    "a partition too large": text('[["orders", 4294967296, 1]]'),
    "a null ordinal": chain(["orders", 0, 12, None]),
    "garbage behind": text('[["orders", 0, 12]] x'),
    "cut short": text('[["orders", 0, 12]'),
    "a comma too many": text('[["orders", 0, 12],]'),
    "the second entry is wrong": chain(["orders", 0, 12], ["parts"]),
    "the last of two headers": [("source-chain", b'[["a",0,7]]'), ("source-chain", b"nonsense")],
    "a hundred and one hops": chain(*(["a", 0, n] for n in range(101))),
    "a megabyte of hops": chain(*(["orders", 0, n] for n in range(50_000))),
    "a megabyte of brackets": text("[" * 2**20),
}


def sequenced(topic: hr.Topic, values: list[bytes], headers: list[Headers]) -> list[dict[str, Any]]:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "partition": pa.array([PARTITION] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array([NOW_MS] * len(values), pa.int64()),
            "headers": pa.array(headers, pairs),
        }
    )
    guard = new_guard(topic.replay_guard)
    rows: list[dict[str, Any]] = (
        Sequencer(RecordFormat.of(topic)).sequence(table, LogState(), guard, NOW_MS).rows.to_pylist()
    )
    return rows


@pytest.fixture(scope="module", params=["together", "alone"])
def decoded(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    cases = {name: headers for name, (headers, _) in WELL_FORMED.items()}
    cases |= {f"malformed: {name}": headers for name, headers in MALFORMED.items()}
    cases["dead for another reason"] = chain(["orders", 0, 12])
    values = [b"{" if name.startswith("dead") else b'{"n": 1}' for name in cases]
    if request.param == "together":
        return dict(zip(cases, sequenced(GUARDED, values, list(cases.values())), strict=True))
    return {
        name: sequenced(GUARDED, [value], [headers])[0]
        for (name, headers), value in zip(cases.items(), values, strict=True)
    }


def source(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["root_topic"], row["root_partition"], row["root_offset"], row["ordinals"], row["path"])


@pytest.mark.parametrize("case", WELL_FORMED)
def test_a_chain_gives_root_ordinals_and_path(decoded: dict[str, dict[str, Any]], case: str) -> None:
    row, (topic, partition, offset, ordinals, path) = decoded[case], WELL_FORMED[case][1]
    assert row["kind"] == "record"
    assert source(row) == (topic, partition, row["offset"] if offset is None else offset, ordinals, path)


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_chain_is_a_dead_letter_with_its_own_reason(
    decoded: dict[str, dict[str, Any]], case: str
) -> None:
    row = decoded[f"malformed: {case}"]
    assert (row["kind"], row["raw_value"]) == ("dead_letter", b'{"n": 1}')
    assert row["reason"] == (
        "malformed source-chain: not a JSON list of 1 to 100 entries [topic, partition, offset] "
        "or [topic, partition, offset, ordinal]"
    )
    assert source(row) == (None,) * 5


def test_a_dead_letter_has_no_source(decoded: dict[str, dict[str, Any]]) -> None:
    row = decoded["dead for another reason"]
    assert row["reason"].startswith("malformed value")
    assert source(row) == (None,) * 5


def test_a_topic_without_a_guard_reads_no_header() -> None:
    (row,) = sequenced(hr.Topic("screws", value="n INT"), [b'{"n": 1}'], [text("nonsense")])
    assert row["kind"] == "record"
    assert row["path"] is None
