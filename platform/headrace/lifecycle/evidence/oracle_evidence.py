"""The evidence of a comparison of some keys: rows of a node's logs after the user's steps, and rows of its table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from headrace.description import Join, Refined, Relation
from headrace.description.feeds import LEFT, RIGHT, ROWS, below
from headrace.engine.folding.fold_increment import selections_of
from headrace.engine.folding.spark_fold import computed_columns
from headrace.engine.steps.arrow_selections import computed_in_arrow, types_in_arrow
from headrace.expressions import SparkNeededError
from headrace.fold.changes.station import MADE, PASSES, Computing, Refinement, Selection
from headrace.fold.relations.station_step import StationStep
from headrace.operators.key_scope import relations_in
from headrace.operators.relations.oracle import key_of_pair
from headrace.spark.frames import arrow_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.nodes.bound_operator import BoundOperator
    from headrace.nodes.progress import Progress
    from headrace.oracle.log import Pair, Values
    from headrace.oracle.reader_time import Commit

BEFORE = "__before_ms"
NUMBER = "__number"
# Columns of final rows: the commit at which they were final, and their event time.
TIMES_OF_ROWS = ("__sequence", "__timestamp")
C = TypeVar("C", bound=Computing)
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Evidence(ABC):
    """The logs and the table of a node, as of its last micro-batch.

    node     that is checked; the operator is bound once for nodes that differ in their sinks alone
    version  of the result table, whose rows these are
    """

    spark: SparkSession
    node: Node
    of: BoundOperator
    progress: Progress
    version: int

    def between(self, first_us: int, end_us: int) -> Self:
        """The evidence whose keys have records of some event times alone, if to leave others out saves reading."""
        return self

    def columns(self, feed: str) -> pa.Schema:
        """The columns of a feed that its operator reads."""
        return self.of.rows.columns[feed]

    @property
    @abstractmethod
    def feeds(self) -> Sequence[str]:
        """The names of the feeds."""

    @property
    @abstractmethod
    def table_columns(self) -> Sequence[str]:
        """The columns of the table that are compared."""

    @abstractmethod
    def table(self, by: Sequence[str], keys: pa.Table | None) -> Rows:
        """The rows of the node's tables: final rows, and windows that are open if they are shown.

        In: by    the columns of a key
            keys  only rows of these; None: all rows
        """

    @abstractmethod
    def sampled(self, feed: str, by: Sequence[str], number: int, seed: int) -> pa.Table:
        """Keys by the order of their hashes: of records that the node may take, and of rows in its table."""

    @abstractmethod
    def of_keys(
        self, feed: str, keys: pa.Table | None, *, controls: bool = False, before: bool = False
    ) -> Rows:
        """The rows of some keys.

        In: keys      their columns; None: of all keys
            controls  whether control rows come, too
            before    whether each row has the stream time of its partition before it
        """

    @abstractmethod
    def at(self, feed: str, topic: str, partition: int, offset: int) -> Rows:
        """The rows of one record; a topic that flows in twice gives two."""

    @abstractmethod
    def of_partitions(self, feed: str, keys: pa.Table) -> Rows:
        """All rows of the partitions that have rows of some keys, and all control rows: limits hold in each partition."""

    @abstractmethod
    def history(self) -> list[Commit]:
        """The log commits, with the stream times and idle topics after each: what their rows say."""

    def values_of_joins(self, join: Join, pairs: Sequence[Pair]) -> Sequence[Values]:
        """The values of a join's `select` (see `oracle.Log`)."""
        part = self._part_of(join)
        selection, types = self._read_by_sql(Selection, part)
        rows: list[Values] = []
        for left, right in pairs:
            carried = {carry: left and left[name] for name, carry in selection.left.items()}
            carried |= {carry: right and right[name] for name, carry in selection.right.items()}
            key = key_of_pair(join, (left, right))
            rows.append(carried | {carry: key[name] for name, carry in selection.key.items()})
        made = self._computed(part, selection, types, rows)
        return [{name: row[f"{part}:{name}"] for name in selection.values} for row in made]

    def refined_rows(self, node: Refined, rows: Sequence[Values]) -> Sequence[Values | None]:
        """The rows that the steps after a table make of its rows, which SQL computes (see `oracle.Log`)."""
        part = below(self._part_of(node), ROWS)
        refinement, types = self._read_by_sql(Refinement, part)
        carried = [{carry: row[name] for name, carry in refinement.source.items()} for row in rows]
        passes = f"{refinement.part}:{PASSES}"
        found: list[Values | None] = []
        for row in self._computed(part, replace(refinement, port=None), types, carried):  # they come alone
            columns = {
                name: row[f"{refinement.part}:{MADE}{name}" if origin is None else refinement.source[origin]]
                for name, origin in node.origins.items()
            }
            found.append(columns if row.get(passes, True) else None)
        return found

    def _part_of(self, relation: Relation) -> str:
        found: str = next(part for part, each in relations_in(self.node) if each == relation)
        return found

    def _read_by_sql(self, kind: type[C], part: str) -> tuple[C, list[pa.Field]]:
        """The rows of a part, by SQL: the select of a join, or the steps after a table; and the types of what it reads."""
        for step in self.of.operator.steps:
            computing = selections_of(step).get(part)
            if isinstance(computing, kind):
                assert isinstance(step, StationStep)
                of = next(port.columns for port in step.arriving if port.name == part)
                return computing, [*_read_by(computing, of)]
        raise AssertionError(f"SQL computes nothing of {part}")

    def _computed(
        self, part: str, computing: Computing, types: Sequence[pa.Field], rows: Sequence[Values]
    ) -> list[Values]:
        """Rows with the columns that SQL computes, in their order."""
        if not rows:
            return []
        plain: list[Values]
        if types_in_arrow(computing, pa.schema(types)) is not None:
            with suppress(SparkNeededError):
                plain = computed_in_arrow(
                    {part: computing}, pa.Table.from_pylist([*rows], pa.schema(types))
                ).to_pylist()
                return plain
        schema = pa.schema([(NUMBER, pa.int64()), *types])
        numbered = [{NUMBER: number, **row} for number, row in enumerate(rows)]
        frame = arrow_frame(self.spark, pa.Table.from_pylist(numbered, schema))
        plain = computed_columns({part: computing}, frame).toArrow().sort_by(NUMBER).to_pylist()
        return plain


def _read_by(computing: Computing, of: pa.Schema) -> Iterator[pa.Field]:
    """The rows that SQL reads, under the names that it knows. In: of  the columns that come."""
    if isinstance(computing, Refinement):
        yield from (of.field(name).with_name(carry) for name, carry in computing.source.items())
        return
    for side, names in ((LEFT, computing.left), (RIGHT, computing.right)):
        yield from (pa.field(carry, of.field(f"{side}.{name}").type) for name, carry in names.items())
    yield from (of.field(name).with_name(carry) for name, carry in computing.key.items())
