"""Changes of a table as rows: for a key and a source commit the row before, the row after, or both.

Columns: the table's own, KEY and HASH of its key, and `INTERNAL`. A key has at most one row before and one row after in a
commit. Rows of several relations travel in one table, each under the name of its *port*.

Event time: a row before has that of the record that caused the change; a row after the highest of the records it is made of
and, where each commit counts, of the cause. The cause need not be part of the row: a left row stays when its right row goes.
Where a micro-batch counts as one commit, a row has its own time alone, which does not depend on the cut.
Source: differential dataflow, whose collections are such rows with a sign and a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.changes.ordering import int64
from headrace.fold.contract import EVENT, HASH, INGESTED, KEY, OFFSET, PARTITION, TOPIC
from headrace.fold.fates import with_column
from headrace.fold.values.columns import table_of

SIGN = "__sign"  # BEFORE or AFTER
BEFORE, AFTER = -1, 1
PORT = "__port"  # of rows that travel together: the number of their port
INTERNAL = pa.schema(
    [
        (SIGN, pa.int8()),
        (EVENT, pa.int64()),
        (INGESTED, pa.int64()),  # these four are the place of the record that caused the change
        (TOPIC, pa.string()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
    ]
)
KEYS = pa.schema([(KEY, pa.binary()), (HASH, pa.int64())])
SHARED = (KEY, HASH, *INTERNAL.names)


@dataclass(frozen=True)
class Port:
    """A stretch of the way of some rows.

    name     of the relation that gives them, and what they are for
    columns  beside SHARED
    """

    name: str
    columns: pa.Schema

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns."""
        return pa.schema([*self.columns, *KEYS, *INTERNAL])


@lru_cache(256)
def delta_schema(columns: pa.Schema) -> pa.Schema:
    """The columns of a relation's changes."""
    return Port("", columns).schema


def commits(rows: pa.Table, *, per_commit: bool) -> np.ndarray:
    """A number for the commit of each row: its commit time, or 0 for all rows if a micro-batch counts as one commit."""
    return int64(rows[INGESTED]) if per_commit else np.zeros(rows.num_rows, np.int64)


def signed(rows: pa.Table, signs: np.ndarray) -> pa.Table:
    """The rows with these signs."""
    return with_column(rows, SIGN, pa.array(signs, pa.int8()))


def pack(changes: Mapping[str, pa.Table], ports: Sequence[Port]) -> pa.Table:
    """Rows of several ports as one table; those that the others have are null."""
    schema = packed_schema(tuple(ports))
    tables = []
    for number, port in enumerate(ports):
        rows = changes[port.name]
        mine = {name if name in SHARED else f"{port.name}:{name}": rows[name] for name in port.schema.names}
        mine[PORT] = pa.array(np.full(rows.num_rows, number, np.int8))
        tables.append(table_of(schema, mine, rows.num_rows))
    return pa.concat_tables(tables)


@lru_cache(256)
def packed_schema(ports: tuple[Port, ...]) -> pa.Schema:
    """The columns of `pack`."""
    own = [pa.field(f"{port.name}:{field.name}", field.type) for port in ports for field in port.columns]
    return pa.schema([pa.field(PORT, pa.int8()), *KEYS, *INTERNAL, *own])


def unpack(rows: pa.Table, ports: Sequence[Port]) -> dict[str, pa.Table]:
    """The rows of each port."""
    found = {}
    number = rows[PORT].to_numpy()
    for index, port in enumerate(ports):
        names = [name if name in SHARED else f"{port.name}:{name}" for name in port.schema.names]
        mine = picked(rows.select(names), np.flatnonzero(number == index))
        found[port.name] = mine.rename_columns(port.schema.names)
    return found


def picked(rows: pa.Table, which: np.ndarray) -> pa.Table:
    """Some rows by number; not copied if they lie together."""
    if not len(which):
        return rows.slice(0, 0)
    if which[-1] - which[0] == len(which) - 1 and bool((np.diff(which) == 1).all()):
        return rows.slice(int(which[0]), len(which))
    return rows.take(pa.array(which))


def with_signs(rows: pa.Table, sign: int) -> pa.Table:
    """The rows of one sign."""
    return rows.filter(pc.equal(rows[SIGN], sign))
