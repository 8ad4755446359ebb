"""Put a table's rows and columns in the place of another's, in one commit; the versions before stay readable."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from headrace.lake import small_files
from headrace.lake.care.alter import set_properties
from headrace.lake.commits.commit_file import no_hooks, properties
from headrace.lake.commits.fence import FencedError
from headrace.lake.commits.snapshot import stats_json
from headrace.lake.tables import open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

    from headrace.lake.commits.writer import TableWriter
    from headrace.lake.table import LakeTable

SKIPPING = "delta.dataSkippingStatsColumns"  # of which columns Delta keeps bounds goes with the columns


def replace_table(
    writer: TableWriter,
    source: LakeTable,
    record: Mapping[str, Any],
    *,
    other_role: TableWriter | None = None,
    remarks: Mapping[str, Mapping[str, str]] | None = None,
) -> int | None:
    """Let a table hold what another holds now. The files are copied first, so the commit itself takes a moment.

    In:     other_role  a writer of the other role, made before anything is read; the work of a newer one would be undone
            remarks     on columns, which the table holds from this commit on (see `LakeTable.remarks`)
    Out:    the version that holds the commit
    Raises: FencedError when a newer writer has taken the table over
    """
    from deltalake.transaction import AddAction

    _take_over(writer, source, SKIPPING)
    snapshot, schema, now_ms = source.snapshot(), source.schema, time.time_ns() // 1_000_000
    times = {field.name: field.type.tz for field in schema if pa.types.is_timestamp(field.type)}
    added: list[AddAction | RemoveAction] = []
    for name, file in snapshot.files.items():
        new = f"part-00000-{uuid4()}-c000.snappy.parquet"
        small_files.copy(f"{source.uri}/{name}", f"{writer.uri}/{new}")
        added.append(AddAction(new, file.size, {}, now_ms, True, stats_json(file, schema.names, times)))

    def replace(whole: Mapping[str, Any], table: DeltaTable) -> None:
        if other_role is not None and writer.epochs.get(other_role.role, 0) > other_role.epoch:
            raise FencedError(
                f"{writer.uri}: a newer {other_role.role} has taken the table over, and may have changed its rows.",
                hint="Nothing was replaced. Run it again.",
            )
        _overwrite(table, added, _remarked(schema, remarks or {}), whole)

    return writer.commit_by(replace, record)


def empty_table(writer: TableWriter, schema: pa.Schema, record: Mapping[str, Any]) -> None:
    """Let a table hold nothing, with other columns. Raises: FencedError as `replace_table` does."""

    def empty(whole: Mapping[str, Any], table: DeltaTable) -> None:
        _overwrite(table, [], schema, whole)

    writer.commit_by(empty, record)


def _overwrite(
    table: DeltaTable, added: list[AddAction | RemoveAction], schema: pa.Schema, record: Mapping[str, Any]
) -> None:
    table.create_write_transaction(
        added,
        mode="overwrite",
        schema=schema,
        commit_properties=properties(record),
        post_commithook_properties=no_hooks(),
    )


def _remarked(schema: pa.Schema, remarks: Mapping[str, Mapping[str, str]]) -> pa.Schema:
    return pa.schema(
        [
            field.with_metadata(dict(remarks[field.name])) if field.name in remarks else field
            for field in schema
        ]
    )


def _take_over(writer: TableWriter, source: LakeTable, name: str) -> None:
    """Give a table the value that another one has of a property."""
    wanted, known = (table.metadata.configuration.get(name) for table in (source, open_table(writer.uri)))
    if wanted is not None and wanted != known:
        set_properties(writer, {name: wanted}, {"writer": "describer"})
