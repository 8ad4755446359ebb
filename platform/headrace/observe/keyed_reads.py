"""Rows of one key, read from the lake by the process that asks. Neither Spark nor the node's stream takes part.

Law: `get` and `fetch` give what `Views.read` has for that key, and `fetch` the open windows, too, as of one micro-batch.
They never wait for a stream: a stream that restarts, or is stopped, leaves its last micro-batch to be read.

A current row is looked for where it may be newest: first in what the state has gained since the base, then in the base.
Final rows are in the table, open windows in the state. Files never change, so the hashes of a file's keys are read once in
a process and remembered.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.epoch_time import EPOCH
from headrace.description.windows import END, START
from headrace.description.wording import listed
from headrace.engine.folding.operators import stored_results
from headrace.engine.state_files import StateSource
from headrace.engine.state_reads import read_state
from headrace.errors import DescriptionError, TerminalError
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED, KEY, Needs
from headrace.fold.values.columns import MOMENT, fitted
from headrace.lake import open_table
from headrace.lake.files.byte_cache import ByteCache
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.descriptions.stored_columns import stored_operator
from headrace.nodes.node_tables import current_base, progress_of
from headrace.observe.rows_by_hash import HashesOfFile
from headrace.observe.sought_keys import Moment, Sought, moment, typed, values_of
from headrace.operators.contract import SEQUENCE, TIMESTAMP
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.description import Node
    from headrace.lake import LakeTable
    from headrace.lake.commits.snapshot import DataFile
    from headrace.lake.paths import Lake

HASHES_BYTES_MAX = 256 << 20  # of all files whose hashes are remembered: some twenty million rows
FINAL = "__final"
LOWEST = -(1 << 63)
LAST_TIME = dt.datetime.max.replace(tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class KeyedReads:
    """Reads rows by their keys. Any thread may ask."""

    def __init__(self, lake: Lake) -> None:
        """Nothing is read yet."""
        self._lake = lake
        self._hashes: ByteCache[tuple[str, tuple[str, ...] | None], HashesOfFile] = ByteCache(
            HASHES_BYTES_MAX
        )

    def get(self, node: Node, key: Any) -> dict[str, Any] | None:
        """Read the row of a key: a current row of totals, a table or a join, or a window.

        In:     key  the values of the columns of `node.key`, for windows with `window_start`: a mapping by name, a sequence
                     in their order, or the value itself where there is one; texts are read as the column's type
        Out:    the node's columns; None: there is no row of this key now. A window that is not suppressed may be open
        Raises: DescriptionError when several rows may have one key, or the key has other columns; TerminalError when the
                lake has no table of the node; OtherDescriptionError when another description wrote its tables
        """
        node = resolve_references(self._lake, node)
        if node.day_column is None:
            return self._current(node, values_of(node, key, node.key))
        if not node.has_windows:
            raise DescriptionError(
                f"Node '{node.required_name}': its rows are final, and several may have one key.",
                hint=f"Read them all by {listed(operator_for(node).group)}: KeyedReads.fetch, or headrace get with --from "
                "and --to.",
            )
        results, _ = self._tables(node)
        values = values_of(node, key, node.key)
        begin = typed(node, START, values[START], results)[0].as_py()
        if begin is None:  # each window has a start
            return None
        group = {name: value for name, value in values.items() if name not in (START, END)}
        sought = Sought.of(node, values, results)
        for row in self._appended(node, group, (begin, _after(begin)), with_open=node.shows_open):
            if sought.among(row).num_rows:
                return _shown(row, results)[0]
        return None

    def fetch(
        self, node: Node, key: Any, first: Moment | None = None, last: Moment | None = None
    ) -> list[dict[str, Any]]:
        """Read the rows of a key within a time: windows by their start, batches by `opened_at`, others by event time.

        In:     key          the values of the group's columns, of rows that have no group those of `node.key`: see `get`
                first, last  ISO 8601 or with a zone: from `first` up to but not including `last`; None: no bound
        Out:    the node's columns, in the order of that time. Windows have `__final`, too; False: the window is open, and
                has its value so far. Open windows of suppressed nodes are among them
        Raises: as `get`; DescriptionError when rows are revised and have no time, or have no key
        """
        node = resolve_references(self._lake, node)
        columns = operator_for(node).group
        if node.day_column is None or not columns:
            what = "are revised, and have no time" if node.day_column is None else "have no key"
            raise DescriptionError(
                f"Node '{node.required_name}': its rows {what}.",
                hint="Read one by its key: KeyedReads.get." if node.day_column is None
                else f'Ask by SQL: headrace sql "SELECT * FROM {node.required_name}".',
            )  # fmt: skip
        results, _ = self._tables(node)
        within = moment(first), moment(last)
        parts = [*self._appended(node, values_of(node, key, columns), within, with_open=True)]
        rows = pa.concat_tables(parts, promote_options="default") if parts else None
        if rows is None or not rows.num_rows:
            return []
        rows = rows.sort_by([(_time_of(node), "ascending"), (SEQUENCE, "ascending")])
        shown = _shown(rows, results)
        if not node.has_windows:
            return shown
        return [row | {FINAL: final} for row, final in zip(shown, rows[FINAL].to_pylist(), strict=True)]

    def _current(self, node: Node, values: Mapping[str, Any]) -> dict[str, Any] | None:
        results, state = self._tables(node)
        progress_of(self._lake, node)  # refuses tables of another description, and half of a swap
        sought = Sought.of(node, values, results)
        # The base first: what is folded into it later is still in the state.
        base = current_base(results.uri, node.required_name)
        files = results.snapshot_at(base.version or 0) or results.snapshot()
        changed = _changed(state, sought, base.batch)
        if changed is not None:
            return None if changed[DELETED][0].as_py() else _shown(changed, results)[0]
        for rows in self._rows(results, files.files, sought, None):
            same = rows.filter(pc.equal(rows[KEY], pa.scalar(sought.key, rows[KEY].type)))
            if same.num_rows:
                return _shown(same, results)[0]
        return None

    def _appended(
        self,
        node: Node,
        group: Mapping[str, Any],
        within: tuple[dt.datetime | None, dt.datetime | None],
        *,
        with_open: bool,
    ) -> Iterable[pa.Table]:
        """Final rows of a group within a time, and its open windows, each with SEQUENCE and FINAL.

        The state first: what it says is closed is in the table then, and what comes later has a later commit time.
        """
        results, state = self._tables(node)
        snapshot = state.snapshot()
        progress = progress_of(self._lake, node, through=snapshot.version)
        sought = Sought.of(node, group, results)
        upto_ms = progress.frontier_ms(node)
        first_us, last_us = (None if at is None else (at - EPOCH) // _MICROSECOND for at in within)
        files = results.snapshot().within(_time_of(node), LOWEST if first_us is None else first_us, last_us)
        for rows in self._rows(results, files, sought, sought.columns):
            final = sought.among(rows).filter(pc.field(SEQUENCE) <= upto_ms)
            yield _between(node, final.append_column(FINAL, pa.repeat(True, final.num_rows)), within)
        if with_open and node.has_windows:
            operator = stored_operator(self._lake, node)
            is_open = operator.kernel.open_state
            assert is_open is not None
            assert is_open.windows is not None
            keeper = next(step for step in operator.kernel.steps if is_open.table in step.state)
            need = sought.needs(keeper, progress.clock.stream_ms)
            source = StateSource(state.uri, snapshot.files)
            waiting = read_state(source, operator.layout, is_open.table, need).rows
            rows = sought.among(is_open.windows(waiting, progress.clock))
            rows = rows.append_column(FINAL, pa.repeat(False, rows.num_rows))
            if SEQUENCE not in rows.column_names:
                rows = rows.append_column(SEQUENCE, pa.nulls(rows.num_rows, pa.int64()))
            yield _between(node, rows, within)

    def _rows(
        self,
        results: LakeTable,
        files: Mapping[str, DataFile],
        sought: Sought,
        columns: tuple[str, ...] | None,
    ) -> Iterable[pa.Table]:
        """Rows with the hash of a key, file by file. In: columns  see `HashesOfFile.read`."""
        for name, file in files.items():
            uri = f"{results.uri}/{name}"
            hashes = self._hashes.get((uri, columns))
            if hashes is None:
                hashes = HashesOfFile.read(uri, file.size, columns)
                self._hashes.put((uri, columns), hashes, hashes.bytes)
            rows = hashes.rows(uri, file.size, sought.hash)
            if rows is not None:
                yield rows.cast(pa.schema([_field_of(results, field) for field in rows.schema]))

    def _tables(self, node: Node) -> tuple[LakeTable, LakeTable]:
        name = node.required_name
        results, state = open_table(self._lake.table(name)), open_table(self._lake.state(name))
        if not (results.exists and state.exists):
            raise TerminalError(
                f"Node '{name}' has no table below {self._lake.root}.",
                hint="Start its stream, or correct the lake's root (HEADRACE_LAKE).",
            )
        return results, state


def _field_of(results: LakeTable, stored: pa.Field) -> pa.Field:
    """A column of a file as the table has it; files that a merge wrote have views of texts and bytes."""
    at = results.columns.get_field_index(stored.name)
    return stored if at < 0 else results.columns.field(at).with_nullable(stored.nullable)


def _after(begin: dt.datetime) -> dt.datetime | None:
    """The next time; None: it is the last."""
    return None if begin >= LAST_TIME else begin + _MICROSECOND


def _time_of(node: Node) -> str:
    """The time by which rows of a key are read."""
    day = node.day_column
    return TIMESTAMP if day is None or day.startswith("__") else day


def _between(node: Node, rows: pa.Table, within: tuple[dt.datetime | None, dt.datetime | None]) -> pa.Table:
    """The rows whose time is within the bounds."""
    times, (first, last) = rows[_time_of(node)], within
    for bound, compare in ((first, pc.greater_equal), (last, pc.less)):
        if bound is not None:
            kept = compare(times, pa.scalar(bound, MOMENT).cast(times.type))
            rows = rows.filter(kept)
            times = rows[_time_of(node)]
    return rows


def _changed(state: LakeTable, sought: Sought, folded: int) -> pa.Table | None:
    """The newest row of a key that the state has gained since the base; None: none."""
    need = Needs(hashes=np.array([sought.hash]))
    rows = read_state(StateSource.committed(state), stored_results(state), RESULTS, need).rows
    same = pc.equal(rows[KEY], pa.scalar(sought.key, rows[KEY].type))
    newer = pc.and_(same, pc.greater(rows[BATCH], folded))
    changed = rows.filter(newer)
    return changed if changed.num_rows else None


def _shown(rows: pa.Table, results: LakeTable) -> list[dict[str, Any]]:
    """The columns that belong to users."""
    columns = pa.schema([of for of in results.columns if not of.name.startswith("__")])
    shown: list[dict[str, Any]] = fitted(rows, columns).to_pylist()
    return shown
