"""Source chains that go on, through services and through nodes without state."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description.source_chain import ENTRIES_MAX
from headrace.sequence.replays.hops import closed_chains, open_chains_of
from tests.laws.kernel.records import PAIRS, some_records

pytestmark = pytest.mark.fast

NAMES = {"t": "source-chain", "u": "x", "n@0123": "source-chain"}


def plain(header: bytes | None, topic: str, partition: int, offset: int) -> list[Any]:
    """The same, entry by entry."""
    known = json.loads(header) if header else []
    node, is_node, _ = topic.partition("@")
    return known if known and is_node else [*known, [node, partition, offset]]


def sent(header: Any, name: str = "source-chain") -> Any:
    return None if header is None else [(name, header)]


def open_of(headers: list[Any], topics: list[str], offsets: list[int | None]) -> pa.Array:
    place = pa.array([1] * len(topics), pa.int32()), pa.array(offsets, pa.int64())
    return open_chains_of(pa.array(headers, PAIRS), NAMES, pa.array(topics, pa.string()), *place)


def test_a_service_appends_what_it_read() -> None:
    assert hr.source_chain(None, "orders", 0, 12) == b'[["orders",0,12]]'
    assert (
        hr.source_chain(b'[ ["orders", 0, 12] ]', "parts", 1, 40, 2) == b'[["orders",0,12],["parts",1,40,2]]'
    )
    assert hr.source_chain("nonsense", "parts", 1, 40) == b'[["parts",1,40]]'
    assert hr.source_chain(b"\xff", "parts", 1, 40) == b'[["parts",1,40]]'
    full = json.dumps([["orders", 0, 12]] * ENTRIES_MAX)
    assert hr.source_chain(full, "parts", 1, 40) == b'[["parts",1,40]]'


def test_a_node_appends_what_it_read_and_itself() -> None:
    headers, topics, wanted = [], [], []
    random = Random(3)
    records = [record for _ in range(20) for record in some_records(random)]
    for record in records:
        topic = random.choice([*NAMES])
        own = [["n", 0, 55]] if "@" in topic else []  # so ends the chain of a row in a node's log
        header = json.dumps([*record.chain, *own]).encode() if record.chain else None
        headers.append(sent(header, NAMES[topic]))
        topics.append(topic)
        hops = plain(header, topic, 1, record.offset)
        wanted.append([*hops[:-1], [*hops[-1][:3], 7], ["node", 0, 99]])
    found = open_of(headers, topics, [record.offset for record in records])
    numbered = closed_chains(found, pa.array([7] * len(records)), "node", pa.array([99] * len(records)))
    assert [json.loads(chain) for chain in numbered.to_pylist()] == wanted
    plain_chains = closed_chains(found, None, "node", pa.array([99] * len(records)))
    assert json.loads(plain_chains[0].as_py())[-1] == ["node", 0, 99]
    assert " " not in "".join(plain_chains.to_pylist())


def test_a_chain_that_is_none_or_full_is_left_out_and_a_row_without_offset_has_none() -> None:
    full = json.dumps([["orders", 0, 12]] * (ENTRIES_MAX - 1)).encode()
    headers = [sent(b"nonsense"), sent(full), sent(b'[["a",0,1]]', "other"), sent(None), sent(b'[["a",0,1]]')]
    found = open_of(headers, ["t"] * 5, [4, 4, 4, 4, None])
    assert found.to_pylist() == ['[["t",1,4'] * 4 + [None]


def test_of_no_rows_there_are_no_chains() -> None:
    assert len(open_of([], [], [])) == 0
