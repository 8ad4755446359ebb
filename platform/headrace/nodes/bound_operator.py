"""A node's operator with Spark's columns: what SQL's steps make of the logs tells the types of everything behind them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace.description.feeds import RESULT, below
from headrace.description.limits import is_suppressed, policy_of
from headrace.description.suppression import Policy
from headrace.engine.folding.operators import NodeOperator, operator_of
from headrace.engine.folding.output_tables import output_tables
from headrace.engine.folding.spark_fold import SparkFold, computed_columns
from headrace.engine.slices.feeds import NodeRows
from headrace.engine.steps.arrow_selections import types_in_arrow
from headrace.errors import DescriptionError
from headrace.fold.changes.collect import CHANGES, RESULTS
from headrace.fold.contract import KEY
from headrace.operators.relation_tree import Grower, Needed
from headrace.operators.totals.fold.merge_totals import RECORDS
from headrace.sequence.parse.types import has_maps
from headrace.spark.errors.day_of_run import refuse_day_of_run
from headrace.spark.frames import local_frame
from headrace.spark.on_demand import application_of
from headrace.spark.one_task import arrow_schema, nullable, spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from headrace.description import Node, Relation

KNOWN_MAX = 1_000
_KNOWN: dict[tuple[str, str | None, str, Policy | None, bool], BoundOperator] = {}


@dataclass(frozen=True)
class BoundOperator:
    """An operator, and how its rows come to it.

    rows      of its feeds, as Spark gives them
    operator  of the node
    computed  the columns that SQL makes of tables (see `engine.folding.operators.operator_of`)
    """

    rows: NodeRows
    operator: NodeOperator
    computed: Mapping[str, pa.Schema] = field(default_factory=dict)
    _by_spark: dict[str, BoundOperator] = field(default_factory=dict, init=False, compare=False)

    def by_spark(self, spark: SparkSession) -> BoundOperator:
        """The same, with all steps evaluated by Spark; made once for each application."""
        application = str(spark.sparkContext.applicationId)
        if application not in self._by_spark:
            rows = NodeRows(spark, self.rows.node, in_arrow=False)
            self._by_spark[application] = replace(self, rows=rows)
        return self._by_spark[application]

    @cached_property
    def fold(self) -> SparkFold:
        """How Spark folds increments."""
        return SparkFold(self.operator, self.rows)

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of the node's table; all may be null.

        If results are revised, the table has the current rows as of some micro-batch: the node's columns, RECORDS where a
        row stands for a number of records, and KEY.
        """
        if not self.operator.revises:
            return nullable(output_tables(self.operator)[RESULTS])
        found = self.operator.kept[RESULTS].schema
        names = [*self.operator.node.columns, *(n for n in (RECORDS, KEY) if n in found.names)]
        return nullable(pa.schema([found.field(name) for name in names]))

    @cached_property
    def results(self) -> StructType:
        """The same as Spark's types."""
        return spark_schema(self.result_schema)

    @cached_property
    def change_schema(self) -> pa.Schema:
        """The columns of the changes of its results, if its operator tells them; all may be null."""
        return nullable(output_tables(self.operator)[CHANGES])

    @cached_property
    def changes(self) -> StructType:
        """The same as Spark's types."""
        return spark_schema(self.change_schema)

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The columns of the state; all may be null."""
        return nullable(self.operator.layout.schema)

    @cached_property
    def state(self) -> StructType:
        """The same as Spark's types."""
        return spark_schema(self.state_schema)


def bound(spark: SparkSession, node: Node) -> BoundOperator:
    """The operator of a node. It is made once for each description.

    Raises: DescriptionError when a MAP that SQL computes would tell its rows apart
    """
    # A bound that shuts a stream down alters no row, so a fingerprint says nothing of it.
    policy = policy_of(node) if is_suppressed(node) else None
    tells = tells_changes(node)
    known = (application_of(spark), node.name, node.fingerprint(), policy, tells)
    made = _KNOWN.get(known)
    if made is None:
        rows = NodeRows(spark, node)
        inputs = {name: feed.schema for name, feed in rows.packed.feeds.items()}
        columns = {} if node.relation is None else _computed_columns(spark, node.relation, inputs)
        operator = operator_of(node, rows.columns, changes=tells, computed=columns)
        made = BoundOperator(rows, operator, columns)
        _require_comparable(node, made.result_schema)
        if len(_KNOWN) >= KNOWN_MAX:  # the oldest one goes: a process that sees many descriptions keeps few
            _KNOWN.pop(next(iter(_KNOWN)), None)
        _KNOWN[known] = made
    return made


def tells_changes(node: Node) -> bool:
    """Whether each change of its results is wanted: for sinks, if the results are revised. Its state is the same."""
    return bool(node.sinks) and node.day_column is None


def _require_comparable(node: Node, results: pa.Schema) -> None:
    """Refuse maps in the identity. Descriptions refuse the types that they state; only Spark knows the others."""
    for name in node.key:
        if name in results.names and has_maps(results.field(name).type):
            raise DescriptionError(
                f"Node '{node.required_name}': column '{name}' tells its rows apart and holds a MAP.",
                detail="MAPs cannot be compared.",
                hint="Group by its entries that matter, each as a column of its own.",
            )


def _computed_columns(
    spark: SparkSession, node: Relation, inputs: Mapping[str, pa.Schema], part: str = RESULT
) -> dict[str, pa.Schema]:
    """See `relation_tree.Grower.computed`."""
    found = dict[str, pa.Schema]()
    for side, table in node.parts.items():
        found |= _computed_columns(spark, table, inputs, below(part, side))
    needed = Grower(inputs, found, per_commit=False).needed(node, part)
    if needed is None:
        return found
    return {**found, part: pa.schema([*needed.key, *_types_of(spark, part, needed)])}


def _types_of(spark: SparkSession, part: str, needed: Needed) -> Iterable[pa.Field]:
    """The columns that SQL computes, by the names that they have in the relation (see `types_in_arrow`)."""
    computing, carried = needed.computing, needed.carried
    if (known := types_in_arrow(computing, carried)) is not None:
        return [*known]
    computed = computed_columns({part: computing}, local_frame(spark, [], spark_schema(carried)))
    refuse_day_of_run(computed, needed.words)
    made = [field for field in arrow_schema(computed.schema) if field.name not in carried.names]
    return [f.with_name(f.name.removeprefix(f"{computing.part}:")).with_nullable(True) for f in made]
