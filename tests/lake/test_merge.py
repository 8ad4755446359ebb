"""Merges against a dictionary: the rows, and what the change feed says happened to them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace import lake as lakes
from headrace.lake import DataFileWriter, Encoding, NewFile
from headrace.lake.care import merge
from headrace.lake.storage import delta_uri

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.lake import TableWriter

pytestmark = pytest.mark.fast
SCHEMA = pa.schema(
    [
        ("the name", pa.string()),
        ("day", pa.date32()),
        ("n", pa.int64()),
        ("exact", pa.decimal128(10, 2)),
        ("at", pa.struct([("ms", pa.int64()), ("topic", pa.string())])),
        ("tags", pa.map_(pa.string(), pa.int32())),
    ]
)
IDENTITY = ("the name", "day")
Row = dict[str, Any]


@pytest.fixture
def writer(tmp_path: Path) -> TableWriter:
    table = lakes.create(f"file:{tmp_path}/table", SCHEMA, {"delta.enableChangeDataFeed": "true"})
    return lakes.TableWriter(table, lakes.MAINTAINER)


def changes(writer: TableWriter, name: str, rows: list[Row], flag: str) -> merge.Changes:
    schema = SCHEMA.append(pa.field(flag, pa.bool_()))
    folder = f"{writer.uri}/_changes/{name}"
    file, table = DataFileWriter(folder, schema, Encoding()), pa.Table.from_pylist(rows, schema)
    if rows:
        file.write(dict(zip(table.column_names, table.columns, strict=True)), table.num_rows)
    made = file.close()
    return merge.Changes(folder, [] if made is None else [NewFile(**made)], schema)


def some(random: Random, count: int) -> list[Row]:
    """Changes of a few identities, each once; a null is an identity, too."""
    found: dict[tuple[Any, Any], Row] = {}
    for number in range(count):
        name, day = random.choice(["a", "b", 'c "quoted"', None]), random.choice([19_000, 19_001, None])
        found[name, day] = {
            "the name": name,
            "day": day,
            "n": number,
            "exact": None if number % 5 == 0 else f"{number}.25",
            "at": None if random.random() < 0.2 else {"ms": number, "topic": random.choice(["t", None])},
            "tags": None if random.random() < 0.5 else [("k", number)],
            "__deleted": random.random() < 0.3,
        }
    table = pa.Table.from_pylist(
        [{**row, "exact": None} for row in found.values()], SCHEMA.append(pa.field("__deleted", pa.bool_()))
    )
    return list(table.to_pylist())


def stored(writer: TableWriter) -> dict[tuple[Any, Any], Row]:
    rows = DeltaTable(delta_uri(writer.uri)).to_pyarrow_table().to_pylist()
    found = {tuple(row[name] for name in IDENTITY): row for row in rows}
    assert len(found) == len(rows), "one row for each identity"
    return found


def feed(writer: TableWriter, version: int) -> list[str]:
    """What the change feed says of one version, sorted."""
    feed = DeltaTable(delta_uri(writer.uri)).load_cdf(starting_version=version, ending_version=version)
    read = pa.table(feed.read_all())
    return sorted(row["_change_type"] for row in read.to_pylist())


def test_upserts_lead_to_the_rows_of_a_dictionary_and_the_feed_names_each_change(writer: TableWriter) -> None:
    random, expected = Random(3), dict[tuple[Any, Any], Row]()
    for number, count in enumerate((12, 3, 0, 20, 1, 8)):
        rows = some(random, count)
        said: list[str] = []
        for row in rows:
            at = tuple(row[name] for name in IDENTITY)
            before = expected.pop(at, None)
            if not row["__deleted"]:
                expected[at] = {name: row[name] for name in SCHEMA.names}
                said += ["insert"] if before is None else ["update_preimage", "update_postimage"]
            elif before is not None:
                said.append("delete")
        version = merge.upsert(
            writer,
            changes(writer, str(number), rows, "__deleted"),
            IDENTITY,
            {"writer": "test", "batch": number},
        )
        assert stored(writer) == expected
        last = lakes.last_commit(lakes.open_table(writer.uri), "test")
        assert last is not None
        assert (last.version, last.record["batch"]) == (version, number), "also when nothing changed"
        if rows:
            assert feed(writer, version) == sorted(said)
    assert expected


def test_an_exchange_removes_every_copy_and_puts_the_right_rows_there(writer: TableWriter) -> None:
    row = {"the name": "a", "day": 19_000, "n": 1}
    schema, table = SCHEMA, pa.Table.from_pylist([row, row, {**row, "the name": "kept"}], SCHEMA)
    file = DataFileWriter(writer.uri, schema, Encoding())
    file.write(dict(zip(table.column_names, table.columns, strict=True)), 3)
    made = file.close()
    assert made is not None
    writer.append([NewFile(**made)], {"writer": "damage"})
    came: list[Row] = [
        {**row, "n": 7, "__insert": True},
        {**row, "__insert": False},
        {"the name": "new", "day": None, "n": 2, "__insert": True},
    ]
    merge.exchange(writer, changes(writer, "x", came, "__insert"), IDENTITY, {"writer": "test"})
    found = {at: values["n"] for at, values in stored(writer).items()}
    assert sorted(found.items(), key=str) == sorted(
        {
            (r["the name"], r["day"]): r["n"]
            for r in pa.Table.from_pylist(
                [{**row, "n": 7}, {**row, "the name": "kept"}, {"the name": "new", "n": 2}], SCHEMA
            ).to_pylist()
        }.items(),
        key=str,
    )


def test_what_another_commits_meanwhile_is_merged_with(
    writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = lakes.TableWriter(lakes.open_table(writer.uri), lakes.APPENDER)
    rows, merged = some(Random(5), 9), merge._merger
    tries: list[int] = []

    def overtaken(*arguments: Any) -> Any:
        if not tries:
            other.append([], {"writer": "another"})
        tries.append(1)
        return merged(*arguments)

    monkeypatch.setattr(merge, "_merger", overtaken)
    merge.upsert(writer, changes(writer, "0", rows, "__deleted"), IDENTITY, {"writer": "test"})
    assert len(tries) == 2, "the first was refused, for its version was taken"
    assert len(stored(writer)) == sum(not row["__deleted"] for row in rows)
