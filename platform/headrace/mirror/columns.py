"""Columns of a Delta table as Iceberg has them, and a Parquet file as an entry of an Iceberg table."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_HIDDEN = 1_000_000_000  # identifiers of columns that a file has and the mirror has not
PER_COLUMN = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)


def visible(schema: pa.Schema) -> pa.Schema:
    """The columns for users, each of which may be null."""
    return pa.schema([pa.field(f.name, f.type) for f in schema if not f.name.startswith("__")])


def iceberg_schema(schema: pa.Schema) -> Any:
    """The same columns as Iceberg's, with identifiers that say nothing."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.schema import assign_fresh_schema_ids

    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))


def name_mapping(columns: Any, stored: pa.Schema) -> str:
    """Which column of a file is which of the mirror's (JSON): by name. In: stored  the columns of the Delta table.

    Those that the mirror has not are named, too: pyiceberg reads no file with a column that it cannot place.
    """
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.table.name_mapping import NameMapping

    numbers = count(FIRST_HIDDEN)
    hidden = iceberg_schema(pa.schema([field for field in stored if field.name.startswith("__")]))
    unseen = assign_fresh_schema_ids(hidden, lambda: next(numbers))
    return str(NameMapping([*columns.name_mapping.root, *unseen.name_mapping.root]).model_dump_json())


def types(schema: Any) -> dict[str, Any]:
    """The types of Iceberg's columns by name, structs likewise: order and identifiers left out."""
    return {field.name: _plain(field.field_type) for field in schema.fields}


def grows_into(has: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if all columns stay as they are, and others or fields of structs come. In: as of `types`."""
    return all(name in wanted and _grows(of, wanted[name]) for name, of in has.items())


def data_file(metadata: Any, io: Any, path: str) -> Any:
    """A Parquet file as an Iceberg table names it, with the bounds of its columns. Its footer is read."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import compute_statistics_plan, data_file_statistics_from_parquet_metadata
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    source = io.new_input(path)
    with source.open() as stream:
        footer = pq.read_metadata(stream)
    ids = _identifiers(metadata.schema(), footer)
    plan = compute_statistics_plan(metadata.schema(), metadata.properties)
    plan |= {number: _nothing(number) for number in ids.values() if number not in plan}
    statistics = data_file_statistics_from_parquet_metadata(footer, plan, ids).to_serialized_dict()
    for name in PER_COLUMN:
        statistics[name] = {key: value for key, value in statistics[name].items() if key < FIRST_HIDDEN}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=len(source),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )


def _identifiers(schema: Any, footer: Any) -> dict[str, int]:
    """The identifier of each column of a file by its path; those that the mirror has not get others."""
    from pyiceberg.io.pyarrow import parquet_path_to_id_mapping

    known = parquet_path_to_id_mapping(schema)
    paths = [footer.schema.column(at).path for at in range(len(footer.schema))]
    # Writers differ in the name of a list's element; columns are found by their places all the same.
    return {
        path: known.get(path) or known.get(path.replace(".list.item", ".list.element")) or FIRST_HIDDEN + at
        for at, path in enumerate(paths)
    }


def _nothing(number: int) -> Any:
    """How the statistics of a column are collected that needs none."""
    from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode, StatisticsCollector
    from pyiceberg.types import StringType

    return StatisticsCollector(number, StringType(), MetricsMode(MetricModeTypes.NONE), "")


def _plain(of: Any) -> Any:
    from pyiceberg.types import ListType, MapType, StructType

    match of:
        case StructType():
            return {field.name: _plain(field.field_type) for field in of.fields}
        case ListType():
            return [_plain(of.element_type)]
        case MapType():
            return (_plain(of.key_type), _plain(of.value_type))
        case _:
            return str(of)


def _grows(has: Any, wanted: Any) -> bool:
    if isinstance(has, dict) and isinstance(wanted, dict):
        return grows_into(has, wanted)
    return bool(has == wanted)
