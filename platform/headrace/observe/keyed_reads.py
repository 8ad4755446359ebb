"""The current row of one key, read from the lake by the process that asks. Neither Spark nor the node's stream takes part.

Law: `get` gives what `Views.read` has for that key, as of one micro-batch. It never waits for a stream: a stream that
restarts, or is stopped, leaves its last micro-batch to be read.

A row is looked for where it may be newest: first in what the state has gained since the base, then in the base. Files never
change, so the keys of a file of the base are read once in a process and remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.description.wording import a_value
from headrace.engine.operators import current_results
from headrace.engine.state_files import StateSource, read_state
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_parquet import open_parquet
from headrace.errors import DescriptionError, TerminalError
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED, HASH, KEY, Needs
from headrace.fold.keys import with_keys
from headrace.lake import open_table
from headrace.lake.byte_cache import ByteCache
from headrace.nodes.node_tables import current_base, progress_of
from headrace.nodes.references import resolve_references

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake

KEYS_BYTES_MAX = 256 << 20  # of all files whose keys are remembered: some ten million keys
NOT_THERE = -1


@dataclass(frozen=True)
class KeysOfFile:
    """Holds where the keys of one file of a base are.

    keys  of its rows, in their order
    ends  for each group of rows, how many rows the file has through it
    """

    parquet: pq.FileMetaData
    keys: pa.ChunkedArray
    ends: np.ndarray

    @classmethod
    def read(cls, uri: str, size: int) -> KeysOfFile:
        """Read the keys of a file of so many bytes."""
        with open_parquet(uri, size, None) as file:
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            return cls(file.metadata, file.read([KEY])[KEY].cast(pa.binary()), np.cumsum(groups))

    def row(self, uri: str, size: int, key: bytes) -> pa.Table | None:
        """Read the row of a key; None: the file has none."""
        place = pc.index(self.keys, pa.scalar(key, self.keys.type)).as_py()
        if place == NOT_THERE:
            return None
        group = int(np.searchsorted(self.ends, place, "right"))
        with open_parquet(uri, size, self.parquet) as file:
            rows = file.read_row_group(group)
        return rows.slice(place - (int(self.ends[group - 1]) if group else 0), 1)


class KeyedReads:
    """Reads rows by their keys. Any thread may ask."""

    def __init__(self, lake: Lake) -> None:
        """Nothing is read yet."""
        self._lake = lake
        self._keys: ByteCache[str, KeysOfFile] = ByteCache(KEYS_BYTES_MAX)

    def get(self, node: Node, key: Any) -> dict[str, Any] | None:
        """Read the current row of a key. The node's results are revised: totals, a table, a join, groups of a table.

        In:     key  the values of the columns that tell its rows apart (`node.key`): a mapping by name, a sequence in
                     their order, or the value itself where there is one; texts are read as the column's type
        Out:    the node's columns; None: there is no row of this key now
        Raises: DescriptionError when the node's results are not revised, or the key has other columns; TerminalError when
                the lake has no table of the node; OtherDescriptionError when another description wrote its tables
        """
        node = resolve_references(self._lake, node)
        values = key_values(node, key)
        results, state = self._tables(node)
        progress_of(self._lake, node)  # refuses tables of another description, and half of a swap
        wanted = {name: _typed(node, name, values[name], results) for name in node.key}
        keyed = with_keys(pa.table(wanted), node.key)
        sought = keyed[KEY][0].as_py()
        # The base first: what is folded into it later is still in the state.
        base = current_base(results.uri, node)
        files = results.snapshot_at(base.version or 0) or results.snapshot()
        changed = _changed(state, keyed[HASH].to_numpy(), sought, base.batch)
        if changed is not None:
            return None if changed[DELETED][0].as_py() else _shown(changed, results)
        for name, file in files.files.items():
            uri = f"{results.uri}/{name}"
            found = self._keys_of(uri, file.size).row(uri, file.size, sought)
            if found is not None:
                return _shown(found, results)
        return None

    def _tables(self, node: Node) -> tuple[LakeTable, LakeTable]:
        name = node.required_name
        results, state = open_table(self._lake.table(name)), open_table(self._lake.state(name))
        if not (results.exists and state.exists):
            raise TerminalError(
                f"Node '{name}' has no table below {self._lake.root}.",
                hint="Start its stream, or correct the lake's root (HEADRACE_LAKE).",
            )
        return results, state

    def _keys_of(self, uri: str, size: int) -> KeysOfFile:
        known = self._keys.get(uri)
        if known is None:
            known = KeysOfFile.read(uri, size)
            self._keys.put(uri, known, known.keys.nbytes)
        return known


def key_values(node: Node, key: Any) -> dict[str, Any]:
    """Give the values of a node's key by column.

    Raises: DescriptionError
    """
    name, columns = node.required_name, node.key
    if node.day_column is not None:
        raise DescriptionError(
            f"Node '{name}': its rows are final, and several may have one key.",
            hint=f'Ask by SQL, which knows its open windows, too: headrace sql "SELECT * FROM {name} WHERE …".',
        )
    if isinstance(key, Mapping):
        given = dict(key)
    elif isinstance(key, Sequence) and not isinstance(key, str | bytes):
        given = dict(zip(columns, key, strict=True)) if len(key) == len(columns) else {}
    else:
        given = {columns[0]: key} if len(columns) == 1 else {}
    if set(given) != set(columns):
        raise DescriptionError(
            f"Node '{name}': {a_value(key)} is not a key of its rows.",
            hint=f"Give a value for each of: {', '.join(columns)}.",
        )
    return given


def _typed(node: Node, column: str, value: Any, results: LakeTable) -> pa.Array:
    of = results.columns.field(column).type
    try:
        return pa.array([value]).cast(of) if isinstance(value, str) else pa.array([value], of)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DescriptionError(
            f"Node '{node.required_name}': {a_value(value)} is no value of its key column '{column}'.",
            detail=str(error),
            hint=f"The column's type is {of}.",
        ) from error


def _changed(state: LakeTable, hashes: np.ndarray, key: bytes, folded: int) -> pa.Table | None:
    """The newest row of a key that the state has gained since the base; None: none."""
    kept = state.columns.field(RESULTS).type
    schema = pa.schema([*kept, pa.field(HASH, pa.int64())])
    layout = StateLayout({RESULTS: current_results(schema)})
    rows = read_state(StateSource.committed(state), layout, RESULTS, Needs(hashes=hashes)).rows
    newer = pc.and_(pc.equal(rows[KEY], pa.scalar(key, rows[KEY].type)), pc.greater(rows[BATCH], folded))
    found = rows.filter(newer)
    return found if found.num_rows else None


def _shown(row: pa.Table, results: LakeTable) -> dict[str, Any]:
    """The columns of one row that belong to users."""
    names = [name for name in results.columns.names if not name.startswith("__")]
    types = pa.schema([results.columns.field(name) for name in names])
    (found,) = row.select(names).cast(types).to_pylist()
    return dict(found)
