"""How much is open in each partition after each log commit: for a suppression that shuts down when too much is.

Law: what is open after a commit is a function of the log through that commit. A window of a group counts once in each
partition that has records of it, with the bytes of its row as JSON, made of that partition's records alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.running import running_partials
from headrace.fold.bounds import BYTES, RECORDS, SIZE_CHANGES
from headrace.fold.columns import int64, moments
from headrace.fold.contract import HASH, INGESTED, KEY, PARTITION, TOPIC, Needs, Times
from headrace.fold.fates import is_kept
from headrace.fold.json_size import json_size
from headrace.fold.keys import combined, distinct_hashes, group
from headrace.fold.segments import HIGHEST, NO_TIME, begins
from headrace.fold.windows.assign_windows import Entered
from headrace.fold.windows.merge_panes import explode, partials_of
from headrace.fold.windows.shape import END, START, Shape

BEFORE = NO_TIME  # as a commit time: before the micro-batch


@dataclass(frozen=True)
class Bounded:
    """What the open windows of a node add to, and take from, the size of each partition's buffer."""

    shape: Shape

    def needs(self, decided: pa.Table, entered: Entered, closing: Needs | None) -> Needs | None:
        """The panes of the windows that rows enter, beside those of windows that close."""
        kept = is_kept(decided)
        if not kept.any():
            return closing
        through_ms = int(entered.last[kept].max()) + self.shape.panes.size_ms - 1
        hashes = distinct_hashes(decided.filter(pa.array(kept)).select([HASH]))
        return Needs(hashes, (int(entered.start[kept].min()), through_ms), closing)

    def changes(self, came: pa.Table, entered: Entered, known: pa.Table, times: Times) -> pa.Table:
        """How the size of each partition's buffer changes with each log commit.

        In:  came   the kept rows, and the windows that they enter
             known  rows of the state: all of the windows that these rows enter, and of those that close
        Out: as `SIZE_CHANGES`
        """
        items = self._items(came, entered, known, times)
        item = combined(
            group(items[KEY]).codes, group(items[TOPIC]).codes, int64(items[PARTITION]), int64(items[START])
        )
        commit = int64(items[INGESTED])
        both = combined(item.codes, commit)
        merged = pa.table(self.shape.aggregates.merge(items, both.codes, len(both)))
        order = np.lexsort((commit[both.first], item.codes[both.first]))
        rows = items.select([*self.shape.keys, TOPIC, PARTITION, START, INGESTED]).take(
            pa.array(both.first[order])
        )
        first = begins(item.codes[both.first][order])
        partials = running_partials(self.shape.aggregates, merged.take(pa.array(order)), first)
        return self._steps(rows, first, self._bytes(rows, partials), times)

    def _items(self, came: pa.Table, entered: Entered, known: pa.Table, times: Times) -> pa.Table:
        """The partials of windows by commit; of those of earlier micro-batches the commit is BEFORE."""
        open_ms = self.shape.panes.first_open_ms(self.shape.closed_ms(times.before))
        marks = pa.array(np.full(known.num_rows, BEFORE))
        earlier = known.select(self.shape.state.names).append_column(INGESTED, marks)
        partials = partials_of(came, entered, self.shape, by_commit=True)
        windows = [*explode(partials, self.shape, 0, None), *explode(earlier, self.shape, open_ms, None)]
        return pa.concat_tables(windows)

    def _bytes(self, rows: pa.Table, partials: Mapping[str, pa.Array]) -> np.ndarray:
        """The bytes of windows as rows of the node's table."""
        start = int64(rows[START])
        columns = {name: whole(rows[name]) for name in self.shape.keys}
        columns |= {START: moments(start), END: moments(start + self.shape.panes.size_ms)}
        return json_size(columns | self.shape.aggregates.finish(partials))

    def _steps(self, rows: pa.Table, first: np.ndarray, size: np.ndarray, times: Times) -> pa.Table:
        """What windows add when they open and grow, and take away when they close.

        In: rows  by window and commit; first  marks the first row of each window
        """
        commit, closes = int64(rows[INGESTED]), self._closing(int64(rows[START]), times)
        counts = commit < closes  # a window that its first commit closes was never open after one
        earlier = np.where(first, 0, np.concatenate([[0], size[:-1]]))
        last = counts & ~np.concatenate([counts[1:] & ~first[1:], np.zeros(1, bool)])[: len(counts)]
        grows, ends = counts & (commit != BEFORE), last & (closes != HIGHEST)
        at = np.concatenate([commit[grows], closes[ends]])
        row = pa.array(np.concatenate([np.flatnonzero(grows), np.flatnonzero(ends)]))
        found = pa.table(
            {
                INGESTED: pa.array(at),
                TOPIC: whole(rows[TOPIC].take(row)),
                PARTITION: whole(rows[PARTITION].take(row)),
                RECORDS: pa.array(np.concatenate([first[grows].astype(np.int64), np.full(ends.sum(), -1)])),
                BYTES: pa.array(np.concatenate([(size - earlier)[grows], -size[ends]])),
            }
        )
        names = [INGESTED, TOPIC, PARTITION]
        summed = found.group_by(names, use_threads=False).aggregate([(RECORDS, "sum"), (BYTES, "sum")])
        return (
            summed.rename_columns({f"{RECORDS}_sum": RECORDS, f"{BYTES}_sum": BYTES})
            .select(SIZE_CHANGES.names)
            .cast(SIZE_CHANGES)
        )

    def _closing(self, start_ms: np.ndarray, times: Times) -> np.ndarray:
        """The commit time that closes each window; HIGHEST: none of these."""
        at_ms = np.array([*(ms for ms, _ in times.commits), HIGHEST], np.int64)
        reached = [self.shape.closed_ms(clock) for _, clock in times.commits]
        reached_ms = np.array([NO_TIME if ms is None else ms for ms in reached], np.int64)
        found: np.ndarray = at_ms[np.searchsorted(reached_ms, start_ms + self.shape.panes.wait_ms)]
        return found
