"""How much of tumbling and hopping windows is open in each partition after each log commit. Law: see `open_sizes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.running import running_partials
from headrace.fold.contract import HASH, INGESTED, KEY, PARTITION, TOPIC, Needs, Times
from headrace.fold.fates import is_kept
from headrace.fold.keys import combined, distinct_hashes, group
from headrace.fold.open_sizes import BEFORE, Versions, size_changes
from headrace.fold.segments import begins
from headrace.fold.values.columns import int64, moments
from headrace.fold.window_shape import END, START, first_commits
from headrace.fold.windows.assign_windows import Entered
from headrace.fold.windows.merge_panes import explode, partials_of
from headrace.fold.windows.shape import Shape


@dataclass(frozen=True)
class Bounded:
    """The changes of each partition's buffer size: the bytes that the node's open windows add to it and take from it."""

    shape: Shape

    def needs(self, decided: pa.Table, entered: Entered, closing: Needs | None) -> Needs | None:
        """The panes of the windows that rows enter, beside those of windows that close."""
        kept = is_kept(decided)
        if not kept.any():
            return closing
        through_ms = self.shape.panes.end_ms(int(entered.last[kept].max())) - 1
        hashes = distinct_hashes(decided.filter(pa.array(kept)).select([HASH]))
        return Needs(hashes, (int(entered.start[kept].min()), through_ms), closing)

    def changes(self, arrived: pa.Table, entered: Entered, known: pa.Table, times: Times) -> pa.Table:
        """How the size of each partition's buffer changes with each log commit.

        In:  arrived  the kept rows, and the windows that they enter
             known  rows of the state: all of the windows that these rows enter, and of those that close
        Out: as `SIZE_CHANGES`
        """
        items = self._items(arrived, entered, known, times)
        window = combined(
            group(items[KEY]).codes, group(items[TOPIC]).codes, int64(items[PARTITION]), int64(items[START])
        )
        commit = int64(items[INGESTED])
        both = combined(window.codes, commit)
        merged = pa.table(self.shape.aggregates.merge(items, both.codes, len(both)))
        order = np.lexsort((commit[both.first], window.codes[both.first]))
        at = both.first[order]
        rows = items.select([*self.shape.keys, TOPIC, PARTITION, START]).take(pa.array(at))
        partials = running_partials(
            self.shape.aggregates, merged.take(pa.array(order)), begins(window.codes[at])
        )
        closes_ms = first_commits(self.shape.panes.closes(int64(rows[START])), times, self.shape.closed_ms)
        size = self._bytes(rows, partials)
        return size_changes(Versions(rows, window.codes[at], commit[at], closes_ms, size))

    def _items(self, arrived: pa.Table, entered: Entered, known: pa.Table, times: Times) -> pa.Table:
        """The partials of windows by commit; of those of earlier micro-batches the commit is BEFORE."""
        open_ms = self.shape.panes.first_open_ms(self.shape.closed_ms(times.before))
        marks = pa.array(np.full(known.num_rows, BEFORE))
        earlier = known.select(self.shape.state.names).append_column(INGESTED, marks)
        partials = partials_of(arrived, entered, self.shape, by_commit=True)
        lowest_ms = self.shape.panes.lowest_ms
        windows = [
            *explode(partials, self.shape, lowest_ms, None),
            *explode(earlier, self.shape, open_ms, None),
        ]
        return pa.concat_tables(windows)

    def _bytes(self, rows: pa.Table, partials: Mapping[str, pa.Array]) -> np.ndarray:
        """The bytes of windows as rows of the node's table."""
        start = int64(rows[START])
        columns = {name: rows[name] for name in self.shape.keys}
        columns |= {START: moments(start), END: moments(self.shape.panes.end(start))}
        return self.shape.row_bytes(pa.table(columns | self.shape.aggregates.finish(partials)))
