"""Tables are made once, grow by fields of one column, and are refused when they are others'."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

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

pytestmark = pytest.mark.fast
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.struct([("n", pa.int64())]))])
GROWN = pa.schema([("key", pa.string()), ("value", pa.struct([("n", pa.int64()), ("text", pa.string())]))])


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file:{tmp_path}/table"


def configuration(table: LakeTable) -> dict[str, str]:
    return table.with_handle(lambda handle: dict(handle.metadata().configuration))


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


@pytest.mark.parametrize(
    ("settings", "feature"),
    [
        ({"delta.enableDeletionVectors": "true"}, "deletionVectors"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping"),
    ],
)
def test_a_table_that_readers_here_do_not_understand_is_refused_before_any_write(
    uri: str, settings: dict[str, str], feature: str
) -> None:
    table = create(uri, SCHEMA)
    path = f"{uri}/_delta_log/{0:020d}.json"
    text = small_files.read_text(path)
    assert text is not None
    protocol = '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["%s"],"writerFeatures":["%s"]}}'
    lines = [line for line in text.splitlines() if '"protocol"' not in line]
    small_files.write_bytes(path, "\n".join([*lines, protocol % (feature, feature)]).encode())
    table.forget()
    forget()
    before = small_files.usage(uri)
    for schema in (SCHEMA, GROWN):
        with pytest.raises(TerminalError, match=feature):
            create(uri, schema, grows="value")
    assert small_files.usage(uri) == before
