"""The rows of a lake's logs as an oracle takes them: those of some keys, after the user's row-wise steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import Join, Refined, Relation, TableChanges, quote
from headrace.description.feeds import LEFT, RESULT, RIGHT, ROWS, below, feeds_of
from headrace.engine.fold_increment import selections_of
from headrace.engine.spark_fold import computed_columns
from headrace.fold.changes.station import MADE, PASSES, Computing, Refinement, Selection
from headrace.fold.relations.station_step import StationStep
from headrace.nodes.bound_operator import bound
from headrace.oracle.reader_time import BUSY, IDLE, Commit, commits_of
from headrace.oracle.relations import key_of_pair
from headrace.sequence.log_columns import CONTROL, TICK
from headrace.spark.row_steps import RAW, raw_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Relation
    from headrace.engine.unusable import Unusable
    from headrace.oracle.log import Pair, Values

BEFORE = "__before_ms"
NUMBER = "__number"
C = TypeVar("C", bound=Computing)


@dataclass(frozen=True)
class Feeds:
    """The feeds of a node.

    In: logs      for each topic whole log commits
        unusable  the records among them for which steps raise
    """

    spark: SparkSession
    node: Node
    logs: Mapping[str, DataFrame]
    unusable: Sequence[Unusable]

    @cached_property
    def frames(self) -> dict[str, DataFrame]:
        """Each as SQL's steps leave it."""
        rows = bound(self.spark, self.node).rows
        feeds = feeds_of(self.node).items()
        return {name: rows.rows_apart(name, feed, self.logs, self.unusable) for name, feed in feeds}

    def columns(self, feed: str) -> pa.Schema:
        """The columns of a feed that its operator reads."""
        return bound(self.spark, self.node).rows.columns[feed]

    def of_keys(
        self, feed: str, keys: pa.Table | None, *, controls: bool = False, before: bool = False
    ) -> list[dict[str, Any]]:
        """The rows of some keys.

        In: keys      their columns; None: of all keys
            controls  whether control rows come, too
            before    whether each row has the stream time of its partition before it
        """
        frame = with_stream_before(self.frames[feed]) if before else self.frames[feed]
        if keys is not None:
            mine = semi_join(frame, self.spark.createDataFrame(keys))
            of_control = frame.where(F.col(RAW["kind"]) == CONTROL)
            frame = mine.unionByName(of_control) if controls else mine
        return self.plain(feed, frame)

    def of_partitions(self, feed: str, keys: pa.Table) -> list[dict[str, Any]]:
        """All rows of the partitions that have rows of some keys."""
        frame, partition = self.frames[feed], RAW["partition"]
        own = semi_join(frame, self.spark.createDataFrame(keys)).select(partition).distinct().collect()
        return self.plain(feed, frame.where(F.col(partition).isin([row[0] for row in own])))

    def plain(self, feed: str, frame: DataFrame) -> list[dict[str, Any]]:
        """Rows as dicts; their fates are told by the log's own columns."""
        rows = bound(self.spark, self.node).rows.packed.feeds[feed]
        more = [name for name in (BEFORE,) if name in frame.columns]
        found = frame.select(*(F.col(quote(name)) for name in (*rows.carried, *more))).toArrow()
        table = rows.of({name: found[name] for name in rows.carried}, found.num_rows)
        for name in more:
            table = table.append_column(name, found[name])
        plain: list[dict[str, Any]] = table.to_pylist()
        return plain

    def values_of_joins(self, join: Join, pairs: Sequence[Pair]) -> Sequence[Values]:
        """The values of a join's `select`, which SQL computes (see `oracle.Log`)."""
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
        for step in bound(self.spark, self.node).operator.steps:
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
        schema = pa.schema([(NUMBER, pa.int64()), *types])
        numbered = [{NUMBER: number, **row} for number, row in enumerate(rows)]
        frame = self.spark.createDataFrame(pa.Table.from_pylist(numbered, schema))
        found: list[Values] = computed_columns({part: computing}, frame).toArrow().sort_by(NUMBER).to_pylist()
        return found


def semi_join(frame: DataFrame, keys: DataFrame) -> DataFrame:
    """The rows whose columns have the values of one of the keys. NaN is a value, and 0.0 is -0.0."""
    wanted = keys.select(*(F.col(quote(name)).alias(f"__of_{name}") for name in keys.columns)).distinct()
    same = (F.col(quote(name)).eqNullSafe(F.col(quote(f"__of_{name}"))) for name in keys.columns)
    return frame.join(F.broadcast(wanted), reduce(lambda one, other: one & other, same), "left_semi")


def with_stream_before(frame: DataFrame) -> DataFrame:
    """Rows of logs with the stream time of their partition before them."""
    place = Window.partitionBy(RAW["topic"], RAW["partition"]).orderBy(
        RAW["ingested_at"], F.col(RAW["offset"]).asc_nulls_last()
    )
    earlier = place.rowsBetween(Window.unboundedPreceding, -1)
    return frame.withColumn(BEFORE, F.unix_millis(F.max(RAW["stream_time"]).over(earlier)))


def history_of(logs: Mapping[str, DataFrame], node: Node) -> list[Commit]:
    """The log commits, with the stream times and idle topics after each: what their rows say."""
    found = list[dict[str, Any]]()
    for topic in {each.name: each for each in node.topics}.values():
        action = F.get_json_object("control", "$.action")
        fate = F.when(F.col("kind") == TICK, TICK).when(action.isin(IDLE, BUSY), action)
        stream = F.col(raw_column("stream_time", topic, clocks=node.goes_by_clocks))
        by_fate = logs[topic.name].groupBy(
            F.unix_millis("ingested_at").alias("at"), "partition", fate.alias("fate")
        )
        highest = by_fate.agg(F.unix_millis(F.max(stream)).alias("ms"), F.max("offset").alias("offset"))
        found += [
            {
                "__ingested_ms": row["at"],
                "__topic": topic.name,
                "__partition": row["partition"],
                "__offset": row["offset"],
                "__stream_ms": row["ms"],
                "__fate": row["fate"],
            }
            for row in highest.collect()
        ]
    return commits_of([found])


def relations_in(node: Node, part: str = RESULT) -> Iterator[tuple[str, Relation]]:
    """A relation, or the one whose changes a node tells, and those below it, by their parts."""
    if isinstance(node, TableChanges):
        yield from relations_in(node.changed, part)
    if isinstance(node, Relation):
        yield part, node
        for side, table in node.parts.items():
            yield from relations_in(table, below(part, side))


def _read_by(computing: Computing, of: pa.Schema) -> Iterator[pa.Field]:
    """The rows that SQL reads, under the names that it knows. In: of  the columns that come."""
    if isinstance(computing, Refinement):
        yield from (of.field(name).with_name(carry) for name, carry in computing.source.items())
        return
    for side, names in ((LEFT, computing.left), (RIGHT, computing.right)):
        yield from (pa.field(carry, of.field(f"{side}.{name}").type) for name, carry in names.items())
    yield from (of.field(name).with_name(carry) for name, carry in computing.key.items())


def leftmost(node: Relation, part: str = RESULT) -> tuple[str, Relation]:
    """The table that a chain of joins and steps begins with."""
    match node:
        case Join():
            return leftmost(node.left, below(part, LEFT))
        case Refined():
            return leftmost(node.table, below(part, ROWS))
    return part, node
