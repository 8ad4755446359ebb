"""The parts of an operator of the kernel: its steps, the clocks that they get, and the state that they keep.

One micro-batch, for each step in turn:
  1. the caller brings rows together by `Step.scope`: rows of one scope are never in two buckets. A bucket
     without rows is folded, too, because the passing of time may close something in its state;
  2. `needs` says which rows of each state table the rows of a bucket touch;
  3. the caller reads at least these rows, merges them (`StateTable.merge`), reads the rows that `needs_more` names, and
     calls `fold`;
  4. `Folded.rows` go to the next step, `outputs` and `changes` to tables, `tally` to the ledger.

Law: the union of outputs over all buckets and pieces, and the merged state after them, do not depend on the number of
buckets, on how rows were cut into pieces (each a run of whole log commits), or on the order of rows in a table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np
import pyarrow as pa

# Columns of rows as the caller hands them to the first step, beside the user's own. All times are ms since 1970.
INGESTED, TOPIC, PARTITION, OFFSET = "__ingested_ms", "__topic", "__partition", "__offset"
EVENT, STREAM, SIZE = "__event_ms", "__stream_ms", "__size_bytes"
FATE, REASON = "__fate", "__reason"
ROW_COLUMNS = pa.schema(
    [
        (INGESTED, pa.int64()),  # commit time of the row's log commit
        (TOPIC, pa.string()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),  # null for ticks and control rows
        (EVENT, pa.int64()),  # null where a row has no event time
        (STREAM, pa.int64()),  # stream time up to and with the row, not below the node's own; null: none yet
        (SIZE, pa.int64()),  # bytes of the raw key and value
        (FATE, pa.string()),  # null: not decided yet (see `fates`)
        (REASON, pa.string()),  # why a record is a dead letter; of a control row that sets limits, its JSON
    ]
)
CLOCK = "__clock_ms"  # of an output's rows: the stream clock of what caused a row; null: it had not begun
CAUSE = "__cause"  # of a node's row: the place of what caused it, in bytes that compare as places do (L32); others have none
# Columns that the kernel adds. The hash stands in every state row, so the number of buckets may change at any time.
KEY, HASH = "__key", "__hash"  # canonical key bytes (BINARY) and their 64-bit hash (BIGINT), see `keys`
BATCH = "__batch"  # of state rows: the micro-batch that wrote them; the caller adds it
DELETED = "__deleted"  # of state rows and outputs that are changes: the row is gone


class Scope(Enum):
    """By what rows are brought together before a step."""

    GROUP = "group"  # by the hash of the group's key: KEY and HASH are set
    PARTITION = "partition"  # by topic and partition
    GROUP_AND_PARTITION = "group and partition"  # KEY holds both
    ANYWHERE = "anywhere"  # not at all: each row is looked at by itself; KEY and HASH, if set, stay


@dataclass(frozen=True)
class Clock:
    """Where the logs of a node stand.

    upto_ms    for each topic, commit time of the last log commit folded; a topic that is missing has none
    stream_ms  for each topic and partition that has one, the stream time that the log says
    complete   the topics that were read to where they ended when their logs were first begun
    idle       the topics that are idle, as their logs say
    lowest_ms  L, the lowest stream time of the node (see `reader_time`); None: there is none yet
    """

    upto_ms: Mapping[str, int] = field(default_factory=dict)
    stream_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)
    complete: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    lowest_ms: int | None = None

    def partition_ms(self, place: tuple[str, int]) -> int | None:
        """The stream time of a driving partition for the node: L at least; None: the partition has none."""
        own_ms = self.stream_ms.get(place)
        return own_ms if own_ms is None or self.lowest_ms is None else max(own_ms, self.lowest_ms)


@dataclass(frozen=True)
class Times:
    """The clocks around a micro-batch. Both are known before any fold: the log's control rows record them.

    commits  the clock after each log commit of the micro-batch, in the order of commit time; the last equals `after`
    drains   commit times of the drains in the micro-batch, rising; each drain follows the records of its commit time.
             Every bucket gets all of them, while the control row itself lies in one bucket
    limits   the control rows that set limits of a suppression: commit time and JSON, rising; those of the micro-batch, and
             for each node one of time 0 that stands for all before (see `time_limits.limits_in_force`)
    """

    before: Clock
    after: Clock
    commits: Sequence[tuple[int, Clock]] = ()
    drains: Sequence[int] = ()
    limits: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True)
class Needs:
    """The rows of one state table that a fold touches. A caller may hand over more rows, never fewer.

    hashes  hashes of keys, sorted; None: rows of any key
    times   first and last value of the table's time column, both included; None: rows of any time
    either  rows that these other needs touch are touched, too (rows of some keys, and rows whose time has come)
    """

    hashes: np.ndarray | None = None
    times: tuple[int, int] | None = None
    either: Needs | None = None


@dataclass(frozen=True)
class StateTable:
    """One table that a step keeps.

    schema       of its rows, without BATCH
    sorted_by    columns by which its files are sorted; HASH is among them
    time_column  the column that `Needs.times` speaks of; None: it has none
    merge        makes of rows (with BATCH) the fewest that stand for them: rows that add up are added; of rows that replace
                 one another the one with the highest BATCH stays; a row whose DELETED is true stays as such
    expired      marks rows that no fold after a clock reads any more; None: rows never expire. The rows are merged with all
                 others of the table: a row that is DELETED may stand for older rows elsewhere
    """

    schema: pa.Schema
    sorted_by: tuple[str, ...]
    merge: Callable[[pa.Table], pa.Table]
    time_column: str | None = None
    expired: Callable[[pa.Table, Clock], pa.Array] | None = None

    def empty(self) -> pa.Table:
        """No rows, with BATCH."""
        return self._empty

    @cached_property
    def _empty(self) -> pa.Table:
        return self.schema.append(pa.field(BATCH, pa.int32())).empty_table()


@dataclass(frozen=True)
class Folded:
    """The result of one step for one bucket.

    rows     rows for the next step; None after the last step
    shared   rows that every bucket of the next step gets in addition to its own, from all buckets together; few and narrow.
             They have the schema of `rows`, and no KEY
    outputs  rows of the node's outputs, by name; `results` is its table. A current table's outputs carry
             DELETED, one row per key
    changes  rows to append to state tables, by name
    tally    the number of records of each fate: TOPIC, PARTITION, FATE, `records` BIGINT; one row per triple. None: an
             earlier step has counted the records
    """

    rows: pa.Table | None = None
    shared: pa.Table | None = None
    outputs: Mapping[str, pa.Table] = field(default_factory=dict)
    changes: Mapping[str, pa.Table] = field(default_factory=dict)
    tally: pa.Table | None = None


def as_they_are(rows: pa.Table) -> pa.Table:
    """Rows that are never merged: each is written once (see `StateTable.merge`)."""
    return rows


class Step(ABC):
    """One pass over rows. It goes to tasks, so it holds nothing but plain values and Arrow schemas.

    keys          columns that make up KEY, before the step; none: the rows have KEY and HASH already
    keeps_bucket  whether the rows that it gives have KEY and HASH of rows that it got, or of its state, and none are shared.
                  A step that takes rows by the KEY that they have then needs no exchange before it
    threads       whether several threads may fold buckets of it at once: no code of users runs in it
    """

    scope: Scope
    keys: tuple[str, ...] = ()
    keeps_bucket = False
    threads: bool = False
    state: Mapping[str, StateTable]

    @abstractmethod
    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The rows of each state table that the fold of these rows touches. A table that is missing is not needed."""

    def needs_more(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Mapping[str, Needs]:
        """The further rows that the fold touches, found from the rows read so far. A table named here again is read again.

        In: state  the rows that `needs` asked for, merged
        """
        return {}

    @abstractmethod
    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """Fold the rows of one bucket.

        In: rows   of the increment, in any order; those that the step before shared have a null KEY and HASH
            state  for each table that `needs` or `needs_more` names at least the rows that it touches, merged, with BATCH
        """


class StatelessStep(Step):
    """A step that keeps nothing: what becomes of a row follows from the rows that come with it."""

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """Nothing is kept."""
        return {}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """Nothing."""
        return {}
