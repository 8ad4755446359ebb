"""Source chains in the value, as JSON text or as an array of entries: the same verdicts as from a header."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.replays.chains import chain_texts
from headrace.sequence.replays.guards import new_guard
from headrace.sequence.sequence_records import Sequencer
from tests.laws.kernel.records import NOW_MS, Record, some_records, table_of

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
ENTRIES = "ARRAY<STRUCT<topic: STRING, partition: INT, offset: BIGINT, ordinal: INT>>"
DECIDED = ("partition", "offset", "kind", "stream_time", "root_topic", "root_partition", "root_offset", "ordinals", "path", "replay")  # fmt: skip


def rows(guard: hr.ReplayGuard, value: str, records: pa.Table) -> pa.Table:
    topic = hr.Topic("screws", value=value, replay_guard=guard)
    return (
        Sequencer(RecordFormat.of(topic)).sequence(records, LogState(), new_guard(guard), NOW_MS + 100).rows
    )


def enveloped(record: Record, chain: Any) -> Record:
    """The record with its chain in the value, and a header that must not count."""
    if record.value != b'{"n": 1}':
        return replace(record, chain=None)
    return replace(record, chain=None, value=json.dumps({"n": 1, "envelope": {"chain": chain}}).encode())


def entries_of(chain: list[Any] | None) -> Any:
    names = ("topic", "partition", "offset", "ordinal")
    return chain and [dict(zip(names, entry, strict=False)) for entry in chain]


@pytest.mark.parametrize("mode", ["monotone", "exact"])
@given(random=st.integers(0, 2**32).map(Random))
@settings(max_examples=2 * EXAMPLES, deadline=None)
def test_a_chain_counts_alike_wherever_it_stands(mode: str, random: Random) -> None:
    # A tombstone and a value that cannot be read hold no chain.
    records = [r if r.value == b'{"n": 1}' else replace(r, chain=None) for r in some_records(random)]
    header = rows(hr.ReplayGuard(mode=mode), "n INT", table_of(records))
    guard = hr.ReplayGuard(header=None, path="envelope.chain", mode=mode)
    text = [enveloped(record, record.chain) for record in records]
    entries = [enveloped(record, entries_of(record.chain)) for record in records]
    in_text = rows(guard, "n INT, envelope STRUCT<chain: STRING>", table_of(text))
    in_array = rows(guard, f"n INT, envelope STRUCT<chain: {ENTRIES}>", table_of(entries))
    for found in (in_text, in_array):
        assert found.select(DECIDED).equals(header.select(DECIDED))
        known = chain_texts(found["headers"].combine_chunks(), guard.log_header).to_pylist()
        live = [kind == "record" for kind in found["kind"].to_pylist()]
        chains = {(r.partition, r.offset): r.chain for r in records}
        places = zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)
        wanted = [chains[place] if alive else None for place, alive in zip(places, live, strict=True)]
        assert [text and json.loads(text) for text in known] == wanted


@pytest.mark.parametrize(
    ("chain", "well_formed"),
    [
        (None, True),
        ([], True),
        ([{"topic": "a", "partition": 0, "offset": 3}], True),
        ([{"topic": "a", "partition": 0, "offset": 3, "ordinal": 1}], True),
        ([{"topic": "a", "partition": 0}], False),
        ([None], False),
        ([{"topic": 'a"', "partition": 0, "offset": 3}], False),
        ([{"topic": "a", "partition": -1, "offset": 3}], False),
    ],
)
def test_an_entry_that_is_none_makes_a_dead_letter(chain: Any, well_formed: bool) -> None:
    guard = hr.ReplayGuard(header=None, path="chain")
    value = json.dumps({"n": 1, "chain": chain}).encode()
    (row,) = rows(
        guard, f"n INT, chain {ENTRIES}", table_of([Record(0, 3, value, NOW_MS, None, False)])
    ).to_pylist()
    assert (row["kind"] == "record") == well_formed
    if not well_formed:
        assert row["reason"].startswith("malformed chain: not a JSON list")
        assert row["raw_value"] == value


def test_a_header_of_the_logs_own_name_is_no_chain() -> None:
    guard = hr.ReplayGuard(header=None, path="chain")
    records = [Record(0, at, b'{"n": 1}', NOW_MS, None, dead=False) for at in range(3)]
    table = table_of([*records, replace(records[0], offset=3, value=b'{"chain": "[[\\"a\\",0,3]]"}')])
    own = {"key": guard.log_header, "value": b'[["b",0,9]]'}
    headers = [[own], None, [{"key": "x", "value": b""}, own], [own]]
    place, of = table.column_names.index("headers"), table["headers"].type
    table = table.set_column(place, "headers", pa.chunked_array([pa.array(headers, of)]))
    found = rows(guard, "n INT, chain STRING", table)
    assert chain_texts(found["headers"].combine_chunks(), guard.log_header).to_pylist() == [
        *(None, None, None),
        '[["a",0,3]]',
    ]
    assert found["headers"].to_pylist()[:3] == [None, None, [{"key": "x", "value": b""}]]
    again = table.set_column(
        place, "headers", found["headers"].cast(of)
    )  # as a log that is read anew has them
    assert rows(guard, "n INT, chain STRING", again).equals(found)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("envelope.chian", "envelope STRUCT<chain: STRING>", "'chian' is not in envelope"),
        ("chain", "n INT", "'chain' is not in the value"),
        ("n", "n INT", "is INT, which holds no source chain"),
        ("c", "c ARRAY<STRUCT<topic: STRING, partition: INT>>", "holds no source chain"),
    ],
)  # fmt: skip
def test_a_path_that_leads_to_no_chain_is_refused(path: str, value: str, says: str) -> None:
    with pytest.raises(hr.DescriptionError, match=says):
        hr.Topic("t", value=value, replay_guard=hr.ReplayGuard(header=None, path=path))


def test_a_chain_stands_in_one_place() -> None:
    with pytest.raises(hr.DescriptionError, match="header=None"):
        hr.ReplayGuard(path="envelope.chain")
    with pytest.raises(hr.DescriptionError, match="no path of names"):
        hr.ReplayGuard(header=None, path="a..b")
    with pytest.raises(hr.DescriptionError, match="not the name of a record header"):
        hr.ReplayGuard(header=None)
