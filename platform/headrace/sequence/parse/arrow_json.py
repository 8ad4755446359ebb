"""One call of Arrow's JSON reader: texts in columns, or the row that it refuses.

Decimals are read as they are declared first. If one has more decimals than its type, all are read with more of them, and
from then on at once; `typed` rounds them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from headrace.sequence.parse.types import read_as

_ROW = re.compile(r"in row (\d+)$")


@dataclass(frozen=True)
class Refused:
    """Arrow does not take some texts. `at`: the first that it does not take, None if that is not known."""

    at: int | None


class ArrowJson:
    """Reads texts that are objects of one type."""

    def __init__(self, of: pa.DataType) -> None:
        ways = [read_as(of), read_as(of, rounded=True)]
        self._schemas = [pa.schema(list(way)) for number, way in enumerate(ways) if way not in ways[:number]]

    @property
    def fields(self) -> list[pa.Field]:
        """The fields that are read from the texts."""
        return list(self._schemas[0])

    def read(self, texts: pa.StringArray) -> pa.StructArray | Refused:
        """The texts, one struct for each, of a type that `read_as` gives."""
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")
        buffer, refused = lines[0].as_buffer(), Refused(None)
        for schema in list(self._schemas):
            try:
                table = _table(buffer, schema)
            except pa.ArrowInvalid as error:
                named = _ROW.search(str(error))
                refused = Refused(None if named is None or int(named[1]) >= len(texts) else int(named[1]))
                if "decimal" in str(error):
                    continue
                return refused
            if table.num_rows != len(texts):
                return Refused(None)
            if schema is not self._schemas[0]:
                self._schemas = self._schemas[::-1]
            columns = [_whole(table.column(name)) for name in schema.names]
            return pa.StructArray.from_arrays(columns, fields=list(schema))
        return refused


def _table(buffer: pa.Buffer, schema: pa.Schema) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(buffer),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=buffer.size + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
