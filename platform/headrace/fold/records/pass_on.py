"""Records as they are: which are taken, and the rows that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.description import NamedStream
from headrace.fold.contract import (
    CAUSE,
    CLOCK,
    EVENT,
    FATE,
    INGESTED,
    OFFSET,
    PARTITION,
    STREAM,
    TOPIC,
    Folded,
    Scope,
    StatelessStep,
    Times,
)
from headrace.fold.fates import dead_letters, is_kept, tally_of
from headrace.fold.kernel import OneStep
from headrace.fold.lookups.answers import INGESTED_AT, SEQUENCE, TIMESTAMP
from headrace.fold.values.columns import int64, moments

CHAIN = "__chain"  # the source chain of a record with its own position, open (see `sequence.replays.hops`)
ELEMENT = "__element"  # the place of a row among those of its record, from 0


@dataclass(frozen=True)
class Records(OneStep, StatelessStep):
    """The operator of a named stream: it gives each record that is kept.

    Out: `results`: the columns of the stream, TOPIC, PARTITION, OFFSET, `__ingested_at`, TIMESTAMP (event time),
         CLOCK, SEQUENCE (the record's commit), and CHAIN and CAUSE if they came
    Law: a row follows from its record alone.
    """

    columns: tuple[str, ...]
    scope = Scope.ANYWHERE

    @classmethod
    def of(cls, node: NamedStream) -> Records:
        """The operator of a node."""
        assert node.rows.columns is not None
        return cls(node.rows.columns)

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE: every record that is not decided yet is kept. Row by row; no row is dropped."""
        return decide_records(rows)

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        rows = decide_records(rows)
        kept = rows.filter(pa.array(is_kept(rows)))
        found = rows_of_records(kept, self.columns)
        return Folded(outputs={"results": pa.table(found)}, tally=tally_of(rows))


def rows_of_records(kept: pa.Table, columns: tuple[str, ...]) -> dict[str, pa.ChunkedArray | pa.Array]:
    """Some columns of records, and the columns of their place, source and times. See `Records`."""
    source = [name for name in (CHAIN, CAUSE) if name in kept.column_names]
    found = {name: kept[name] for name in (*columns, TOPIC, PARTITION, OFFSET, *source)}
    found[INGESTED_AT] = moments(int64(kept[INGESTED]))
    return found | {TIMESTAMP: kept[EVENT], CLOCK: kept[STREAM], SEQUENCE: kept[INGESTED]}


def decide_records(rows: pa.Table) -> pa.Table:
    """See `Records.decide`."""
    return dead_letters(rows, rows[FATE].is_null().to_numpy(zero_copy_only=False), [])
