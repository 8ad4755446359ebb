"""A table that Headrace makes and opens by itself is the one that delta-rs makes and opens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.lake import APPENDER, LakeTable, TableWriter, create, kinds
from headrace.lake.care.alter import set_properties
from headrace.lake.commits import opening
from headrace.lake.commits.metadata import metadata_of
from headrace.lake.storage import delta_uri
from tests.lake.test_snapshot import SCHEMA, written

pytestmark = pytest.mark.fast
SCHEMAS = {
    "plain": pa.schema([("n", pa.int64()), ("ä", pa.string())]),
    "without zone": pa.schema([("at", pa.timestamp("us"))]),
    "nested": pa.schema([("rows", pa.list_(pa.struct([("at", pa.timestamp("us"))])))]),
    "remarks": pa.schema([pa.field("n", pa.decimal128(12, 2), metadata={"headrace.was": "m"})]),
    "map": pa.schema([("headers", pa.map_(pa.string(), pa.binary())), ("day", pa.date32())]),
}
KINDS = {"log": kinds.log(("n",)), "state": kinds.state(()), "results": kinds.RESULTS}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_a_new_table_is_what_delta_rs_makes(
    tmp_path: Path, schema: pa.Schema, settings: Mapping[str, str]
) -> None:
    create(str(tmp_path / "ours"), schema, settings)
    DeltaTable.create(
        tmp_path / "theirs",
        schema=schema,
        configuration={**kinds.PINNED, **settings},
        raise_if_key_not_exists=False,
    )
    ours, theirs = (metadata_of(DeltaTable(tmp_path / name)) for name in ("ours", "theirs"))
    assert (ours.columns, ours.configuration) == (theirs.columns, theirs.configuration)
    assert ours.writer_version == theirs.writer_version
    assert (ours.writer_features, ours.reader_features) == (theirs.writer_features, theirs.reader_features)
    assert ours.id not in ("", theirs.id)


def grown(table: LakeTable) -> None:
    """Let rows come, go and be packed; properties and columns change."""
    writer = TableWriter(table, APPENDER)
    at = int(datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp() * 10**6)
    files = [written(table, [(number, at + number, "𠀀 b")]) for number in range(4)]
    for file in files:
        writer.append([file], {})
    set_properties(writer, {"headrace.past": "one"}, {})
    known = table.snapshot().files
    packed = [written(table, [(1, None, None)])]
    writer.replace({files[1].path: known[files[1].path]}, packed, {}, changes_data=True)
    create(table.uri, pa.schema([*SCHEMA, ("later", pa.int32())]), adds=("later",))
    writer.append([written(table, [(5, at, "c")])], {})


def test_a_replayed_history_is_the_version_that_delta_rs_opens(tmp_path: Path) -> None:
    table = create(str(tmp_path / "table"), SCHEMA)
    grown(table)
    ours, theirs = opening.replayed(table.uri), opening.opened(table.uri, DeltaTable(delta_uri(table.uri)))
    assert ours == theirs
    assert ours is not None
    assert ours.metadata == theirs.metadata
    assert ours.metadata.schema.equals(pa.schema(DeltaTable(delta_uri(table.uri)).schema().to_arrow()))
    assert table.snapshot() == theirs


def test_delta_rs_opens_what_is_not_a_short_plain_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(str(tmp_path / "table"), SCHEMA)
    grown(table)
    log = tmp_path / "table/_delta_log"
    monkeypatch.setattr(opening, "REPLAYED_MAX", table.version)
    assert opening.replayed(table.uri) is None, "it is long"
    monkeypatch.undo()

    second = log / f"{1:020d}.json"
    content = second.read_text()
    second.unlink()
    assert opening.replayed(table.uri) is None, "a commit is gone"
    second.write_text(content)
    assert opening.replayed(table.uri) is not None

    feature = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["rowX"]}
    newest = log / f"{table.version + 1:020d}.json"
    newest.write_text(json.dumps({"protocol": feature}))
    assert opening.replayed(table.uri) is None, "a feature is not plain"
    newest.unlink()

    table.checkpoint()
    assert opening.replayed(table.uri) is None, "it has a checkpoint"
    assert LakeTable(table.uri).snapshot() == table.snapshot()
