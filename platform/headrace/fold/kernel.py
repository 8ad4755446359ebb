"""The protocol `Kernel`: what the system asks of an operator that is bound to the schemas of its rows.

Law: each answer follows from the kernel and from the rows that it gets. A kernel goes to tasks, so it holds nothing but
plain values and Arrow schemas.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.description.feeds import RESULT
from headrace.fold.contract import ROW_COLUMNS, Clock, Scope, Step, Times
from headrace.fold.lookups.count_fates import once

if TYPE_CHECKING:
    from headrace.errors import TerminalError
    from headrace.fold.bounds import Sizes

Feeds = Mapping[str, pa.Table]
Shown = Callable[[pa.Table, Clock], pa.Table]


@dataclass(frozen=True)
class OpenState:
    """Open records and windows in the state of a kernel. The functions take the merged rows of its table, and a clock.

    table    the state table that holds it
    records  the rows that stand for open records: TOPIC, PARTITION and, third, a number of records
    windows  the windows that are not closed yet, with their values so far; None: the kernel has no windows
    updates  the values of each open window after each micro-batch that touched it, with BATCH
    moves    True if the bounds of a window change as it grows. Then `updates` takes rows that are not merged, and its rows
             have DELETED
    """

    table: str
    records: Shown
    windows: Shown | None = None
    updates: Shown | None = None
    moves: bool = False


class Kernel(ABC):
    """An operator of the kernel. At most ten members; each has a default but the first."""

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The steps of its fold."""

    def decided(self, feeds: Feeds) -> pa.Table:
        """The rows of all feeds with FATE and REASON completed: one row for each row of the logs, no row is dropped.

        Out: ROW_COLUMNS; of a kernel with one feed the columns of the feed
        """
        return once(self.rows(feeds)).select(ROW_COLUMNS.names)

    @property
    def revises(self) -> bool:
        """True if a later row of a key replaces the earlier one in its results; False: results are final."""
        return False

    def rows(self, feeds: Feeds) -> pa.Table:
        """The rows of all feeds as the first step takes them."""
        return feeds[RESULT]

    @property
    def decided_with(self) -> tuple[str, ...]:
        """The columns by whose values `decided` needs all records at once; none: it looks at each by itself."""
        return ()

    @property
    def late_scope(self) -> Scope | None:
        """By what rows are brought together to say which of them are late; None: none is, or the ledger alone says so."""
        return None

    def late(self, rows: pa.Table) -> pa.Table:
        """Late records, one row for each record and closed window (see `late_view`). In: all of the log, as of `rows`."""
        raise NotImplementedError

    @property
    def open_state(self) -> OpenState | None:
        """Its open records and windows; None: no record can be open."""
        return None

    def judged(
        self, outputs: Mapping[str, Sequence[pa.Table]], times: Times, sizes: Sizes
    ) -> tuple[Sizes, TerminalError | None]:
        """How much waits after an increment, and why the stream has to stop before it commits anything.

        In:  outputs  of all buckets; times: with the limits that were set before the increment
             sizes    how much waited before it
        Out: no sizes without a bound that needs them. Nothing would be taken away from them as windows close, so a bound
             that is described again would count windows that are gone
        Law: sizes after a log commit follow from the log. The bound is the one in force at the end of the micro-batch, so
             a stream that is full goes on from where it stopped once a person has raised it.
        """
        return {}, None

    def results(self, inputs: Mapping[str, pa.Schema]) -> pa.Schema | None:
        """The columns of its results; None: those of a fold of no rows. In: inputs  the schema of each feed."""
        return None


class OfOneFeed(Kernel):
    """A kernel of one feed."""

    @abstractmethod
    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON. Row by row; no row is dropped."""

    def decided(self, feeds: Feeds) -> pa.Table:
        """The rows of the feed, decided."""
        rows = feeds[RESULT]
        return self.decide(rows).select(rows.column_names)


class OneStep(OfOneFeed, Step):
    """A kernel of one step: it is that step itself. Steps are told apart by themselves, not by their values."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Itself."""
        return (self,)
