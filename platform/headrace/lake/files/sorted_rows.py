"""The rows of several Parquet files in the order of one column, read in groups of rows, as few at a time as possible.

Law: every row of the files comes once. Groups are read in the order of their lowest values. A row leaves as soon as no group
that is still unread can have a lower one; nulls leave last. Files that are sorted are held one group each at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.lake.files.group_bounds import GroupBounds
from headrace.lake.files.row_groups import open_local, parquet_file, read_row_groups
from headrace.lake.files.stored_file import StoredFile
from headrace.lake.storage import is_local


@dataclass(frozen=True)
class _Group:
    """A group of rows of an open file; `lowest` None: the file does not say."""

    file: pq.ParquetFile
    number: int
    lowest: Any


def all_rows(uris: Sequence[str], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of files, one file after the other. In: schema  of the result; what a file lacks is null."""
    for uri in uris:
        with _open(uri) as file:
            names = file.schema_arrow.names
            wanted = None if {*names} <= {*schema.names} else [name for name in names if name in schema.names]
            for number in range(file.num_row_groups):
                yield fitted(read_row_groups(file, [number], wanted), schema)


def groups_upto(uri: str, columns: Sequence[str], column: str, highest: int) -> Iterator[pa.Table]:
    """Some columns of those groups of rows of a file that may have a value up to `highest` in a column at the top level."""
    with _open(uri) as file:
        for number in range(file.num_row_groups):
            lowest = _lowest(file, number, column)
            if lowest is None or lowest <= highest:
                yield read_row_groups(file, [number], columns)


def bounds_of(uri: str, column: str) -> tuple[Any, Any] | None:
    """The lowest and the highest of a column at the top level, by a file's own statistics; None: they do not say."""
    with _open(uri) as file:
        bounds = GroupBounds(file.metadata)
        found = [bounds.of(number, column) for number in _numbers(file)]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return min(lowest for lowest, _ in known), max(highest for _, highest in known)


def sorted_rows(uris: Sequence[str], schema: pa.Schema, column: str) -> Iterator[pa.Table]:
    """The rows of files, in the order of a column at the top level.

    In: schema  of the result; columns and fields that a file lacks are null
    """
    with ExitStack() as opened:
        files = [opened.enter_context(_open(uri)) for uri in uris]
        groups = sorted(
            (
                _Group(file, number, _lowest(file, number, column))
                for file in files
                for number in _numbers(file)
            ),
            key=lambda group: (group.lowest is not None, group.lowest if group.lowest is not None else 0),
        )
        wanted = schema.field(column).type
        waiting = schema.empty_table()
        for number, group in enumerate(groups):
            read = read_row_groups(group.file, [group.number])
            waiting = pa.concat_tables([waiting, fitted(read, schema)])
            if number + 1 < len(groups):
                bound = groups[number + 1].lowest
                if bound is None:
                    continue
                leaves = pc.fill_null(pc.less(waiting[column], _scalar(bound, wanted)), False)
                leaving, waiting = waiting.filter(leaves), waiting.filter(pc.invert(leaves))
            else:
                leaving = waiting
            if leaving.num_rows:
                yield leaving.take(pc.sort_indices(leaving, sort_keys=[(column, "ascending")]))


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns and types of a schema; those that are missing are null."""
    columns = [
        _fitted(rows[field.name].combine_chunks(), field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _fitted(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):  # only without rows
        return pa.nulls(0, wanted)
    if values.type == wanted or not pa.types.is_struct(wanted):
        return values.cast(wanted)
    has = {values.type.field(at).name: at for at in range(values.type.num_fields)}
    flat = values.flatten()
    fields = [
        _fitted(flat[has[field.name]], field.type) if field.name in has else pa.nulls(len(values), field.type)
        for field in wanted
    ]
    return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=values.is_null())


def _numbers(file: pq.ParquetFile) -> range:
    return range(file.metadata.num_row_groups)


def _lowest(file: pq.ParquetFile, number: int, column: str) -> Any:
    bounds = GroupBounds(file.metadata).of(number, column)
    return None if bounds is None else bounds[0]


def _scalar(value: Any, wanted: pa.DataType) -> pa.Scalar:
    return pa.scalar(value).cast(wanted) if not pa.types.is_timestamp(wanted) else pa.scalar(value, wanted)


def _open(uri: str) -> pq.ParquetFile:
    if is_local(uri):
        return open_local(uri)
    return parquet_file(pa.PythonFile(StoredFile(uri), mode="r"), pre_buffer=True)
