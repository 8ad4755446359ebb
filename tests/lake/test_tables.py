"""Tables are made once, grow by fields of one column, and are refused when they are others'."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.errors import TerminalError
from headrace.lake import (
    APPENDER,
    LakeTable,
    TableWriter,
    create,
    exists,
    forget,
    kinds,
    open_table,
    small_files,
)
from headrace.lake.storage import delta_uri

pytestmark = pytest.mark.fast
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.struct([("n", pa.int64())]))])
GROWN = pa.schema([("key", pa.string()), ("value", pa.struct([("n", pa.int64()), ("text", pa.string())]))])


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file:{tmp_path}/table"


def configuration(table: LakeTable) -> dict[str, str]:
    return dict(table.metadata.configuration)


def test_a_table_is_made_once(uri: str) -> None:
    assert not exists(uri)
    with ThreadPoolExecutor(4) as makers:
        tables = list(makers.map(lambda _: create(uri, SCHEMA, kinds.RESULTS), range(4)))
    assert exists(uri)
    assert {table.version for table in tables} == {0}
    forget()
    assert create(uri, SCHEMA).version == 0
    assert configuration(open_table(uri)).items() >= {**kinds.PINNED, **kinds.RESULTS}.items()


def test_other_columns_are_refused_and_named(uri: str) -> None:
    create(uri, SCHEMA)
    with pytest.raises(TerminalError, match="key: string -> long") as raised:
        create(uri, pa.schema([("key", pa.int64()), SCHEMA.field("value"), ("more", pa.int32())]))
    assert "more: absent -> integer" in str(raised.value)
    assert open_table(uri).version == 0


def test_a_column_of_a_type_that_delta_lacks_is_named(uri: str) -> None:
    schema = pa.schema([("id", pa.string()), ("waited", pa.duration("us"))])
    with pytest.raises(TerminalError, match=r"column 'waited' is duration\[us\]") as error:
        create(uri, schema)
    assert "timestampdiff(SECOND, earlier, later)" in str(error.value)
    assert "unknown" not in str(error.value)


def test_a_struct_grows_and_the_writers_of_before_go_on(uri: str) -> None:
    table = create(uri, SCHEMA)
    writer = TableWriter(table, APPENDER)
    with pytest.raises(TerminalError, match="value"):
        create(uri, GROWN)
    forget()
    assert create(uri, GROWN, grows="value").schema.field("value").type.num_fields == 2
    with pytest.raises(TerminalError, match="value"):
        create(uri, SCHEMA, grows="value")
    version = writer.append([], {"writer": "appender"})
    assert version == open_table(uri).version
    assert create(uri, GROWN).version == version


def test_a_column_that_is_kept_on_wish_is_added_and_may_be_left_out_again(uri: str) -> None:
    more = SCHEMA.append(pa.field("raw", pa.int64()))
    create(uri, SCHEMA, adds=("raw",))
    assert create(uri, more, adds=("raw",)).schema.names == [*SCHEMA.names, "raw"]
    assert create(uri, SCHEMA, adds=("raw",)).schema.names == [*SCHEMA.names, "raw"]
    with pytest.raises(TerminalError, match="raw: long -> absent"):
        create(uri, SCHEMA)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"delta.enableDeletionVectors": "true"}, r"deletionVectors(.|\n)*REORG TABLE delta\.`"),
        ({"delta.columnMapping.mode": "name"}, r"columnMapping(.|\n)*'delta.columnMapping.mode' = 'none'"),
    ],
    ids=["deletion vectors", "column mapping"],
)
def test_a_table_on_which_a_platform_switched_something_on_is_refused_before_any_write(
    uri: str, settings: dict[str, str], says: str
) -> None:
    DeltaTable.create(delta_uri(uri), schema=SCHEMA, configuration=settings)
    refused_before_any_write(uri, says)


@pytest.mark.parametrize("feature", ["rowTracking", "checkpointProtection", "clustering"])
def test_a_feature_that_delta_rs_does_not_write_is_named(uri: str, feature: str) -> None:
    with_features(uri, feature)
    refused_before_any_write(uri, f"uses {feature}, which Headrace does not write")


def test_features_that_a_table_only_could_use_are_no_hindrance(uri: str) -> None:
    with_features(uri, "deletionVectors", "columnMapping")
    table = create(uri, SCHEMA)
    assert TableWriter(table, APPENDER).append([], {"writer": "appender"}) == table.version


def with_features(uri: str, *features: str) -> None:
    """Make a table, and let its protocol name these."""
    table = create(uri, SCHEMA)
    path = f"{uri}/_delta_log/{0:020d}.json"
    text = small_files.read_text(path)
    assert text is not None
    readers = [feature for feature in features if feature in ("deletionVectors", "columnMapping")]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": readers,
        "writerFeatures": features,
    }
    lines = [line for line in text.splitlines() if '"protocol"' not in line]
    small_files.write_bytes(path, "\n".join([*lines, json.dumps({"protocol": protocol})]).encode())
    table.forget()
    forget()


def refused_before_any_write(uri: str, says: str) -> None:
    before = small_files.usage(uri)
    for schema in (SCHEMA, GROWN):
        with pytest.raises(TerminalError, match=says):
            create(uri, schema, grows="value")
    assert small_files.usage(uri) == before
