"""Files of a log that comes back, with values in columns that the log has gained since (see `log.filled_columns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.state_parquet import open_parquet
from headrace.lake import DataFileWriter, Encoding, NewFile
from headrace.sequence.log_columns import SKIPPING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def fill(
    uri: str, schema: pa.Schema, files: Iterable[NewFile], values: Mapping[str, pa.Scalar]
) -> list[NewFile]:
    """Files with the same rows and these values in columns of their value; the files before stay as they are.

    In: uri, schema  of the log's table
    """
    return [_filled(uri, schema, file, values) for file in files]


def _filled(uri: str, schema: pa.Schema, file: NewFile, values: Mapping[str, pa.Scalar]) -> NewFile:
    with open_parquet(f"{uri}/{file.path}", file.size, None) as parquet:
        rows = parquet.read().combine_chunks()
    value = rows["value"].combine_chunks() if "value" in rows.column_names and rows.num_rows else None
    if value is None or value.null_count == len(value):
        return file
    given = {field.name: value.field(at) for at, field in enumerate(value.type)}
    fields = list(schema.field("value").type)
    parts = [
        pa.repeat(values[field.name].cast(field.type), len(value))
        if field.name in values
        else given.get(field.name, pa.nulls(len(value), field.type)).cast(field.type)
        for field in fields
    ]
    columns = {name: rows[name] for name in rows.column_names}
    columns["value"] = pa.StructArray.from_arrays(parts, fields=fields, mask=value.is_null())
    writer = DataFileWriter(uri, schema, Encoding(statistics=SKIPPING))
    try:
        writer.write(columns, rows.num_rows)
        report = writer.close()
    except BaseException:
        writer.remove()
        raise
    assert report is not None
    return NewFile(report["path"], report["size"], file.stats)  # of columns that stay as they are
