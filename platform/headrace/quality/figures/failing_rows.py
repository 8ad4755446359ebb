"""Rows that fail an expectation about single rows, as examples.

Law: a verdict stays in Dagster for ever. So it holds no value of a row if the row follows from a key that can be erased. A
person gets examples by `headrace failing`, which stores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace.description import references_of
from headrace.description.expression_types import term_over
from headrace.expressions import Rows, SparkNeededError
from headrace.fold.aggregates.kind import whole
from headrace.lake import open_table
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.descriptions.topics import topics_below
from headrace.nodes.rows.stored_rows import stored_rows
from headrace.observe.fates.fated_records import HERE_BYTES
from headrace.observe.views import without_internal
from headrace.quality.books import open_books
from headrace.quality.words import counted, quoted
from headrace.spark.row_steps import expression_of
from headrace.spark.session import pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.description.expectations import Expectation
    from headrace.lake.paths import Lake

SHOWN = 5


@dataclass(frozen=True)
class FailingRows:
    """The rows of a node's table that fail one expectation.

    rows      of the table; `failing` of them fail; None: one row alone does not tell
    examples  some of them, with all their columns
    """

    check: str
    claim: str
    rows: int
    failing: int | None
    examples: Sequence[Mapping[str, Any]] = ()

    def __str__(self) -> str:
        """A sentence, then a line for each example."""
        if self.failing is None:
            return f"{self.check}: it is about the whole table, so no single row fails it. Look at its check."
        fail = "fails" if self.failing == 1 else "fail"
        told = f"{self.check}: {self.failing:,} of {counted(self.rows, 'row')} {fail}: {self.claim}"
        return "\n    ".join([told, *(row_text(row, list(row)) for row in self.examples)])


def can_be_erased(node: Node) -> bool:
    """True if a row of the node may follow from a key that can be erased: one of its topics has a key, or is not known."""
    return bool(references_of(node)) or any(topic.key_columns for topic in topics_below([node]))


def failing_rows(spark: SparkSession, lake: Lake, node: Node, rows_max: int = SHOWN) -> list[FailingRows]:
    """The rows that fail each expectation of a node now; nothing is stored.

    In:     spark  may start on demand: it starts if the table is large, or only Spark computes a condition or a step
    Raises: TerminalError when the node's state was written by another description of it
    """
    node = resolve_references(lake, node)
    rules = {each.name: each.condition for each in node.expectations if each.condition is not None}
    found = _failing_here(spark, lake, node, rules, rows_max) or _failing(spark, lake, node, rules, rows_max)
    return [
        FailingRows(
            each.name,
            each.claim.rstrip("."),
            found.rows,
            found.failing.get(each.name),
            found.examples.get(each.name, ()),
        )
        for each in node.expectations
    ]


@dataclass(frozen=True)
class _Failing:
    """The rows of a table, and by expectation how many fail, and some of these."""

    rows: int
    failing: Mapping[str, int]
    examples: Mapping[str, Sequence[Mapping[str, Any]]]


def _failing_here(
    spark: SparkSession, lake: Lake, node: Node, rules: Mapping[str, str], rows_max: int
) -> _Failing | None:
    """The rows as Arrow finds them; None: the table is large, or only Spark computes a condition."""
    table = open_table(lake.table(node.required_name))
    if not table.exists or sum(file.size for file in table.snapshot().files.values()) > HERE_BYTES:
        return None
    rows = stored_rows(lake, node, bound(spark, node)).judged.select([*node.columns]).combine_chunks()
    types = {field.name.lower(): field.type for field in rows.schema}
    terms = {name: term_over(condition, types) for name, condition in rules.items()}
    columns = Rows({name.lower(): whole(rows[name]) for name in rows.column_names}, rows.num_rows)
    fails = {}
    for name, term in terms.items():
        if term is None or term.evaluate is None:
            return None
        try:
            fails[name] = rows.filter(pc.invert(pc.fill_null(term.over(columns), True)))
        except SparkNeededError:
            return None
    shown = {name: some.slice(0, rows_max).to_pylist() for name, some in fails.items()}
    return _Failing(rows.num_rows, {name: some.num_rows for name, some in fails.items()}, shown)


def _failing(
    spark: SparkSession, lake: Lake, node: Node, rules: Mapping[str, str], rows_max: int
) -> _Failing:
    """The same by Spark."""
    rows = without_internal(open_books(pinned(spark), lake, node).results)
    fails = [F.count_if(~expression_of(condition)).alias(name) for name, condition in rules.items()]
    found = rows.agg(F.count(F.lit(1)).alias("__rows"), *fails).first()
    assert found is not None
    shown = {
        each.name: examples(rows, each, rows_max)
        for each in node.expectations
        if each.name in rules and found[each.name]
    }
    return _Failing(found["__rows"], {name: found[name] for name in rules}, shown)


def examples(rows: DataFrame, expectation: Expectation, rows_max: int = SHOWN) -> list[dict[str, Any]]:
    """Some rows that fail an expectation about single rows."""
    assert expectation.condition is not None
    return [
        row.asDict() for row in rows.where(~expression_of(expectation.condition)).limit(rows_max).collect()
    ]


def row_text(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """`sensor_id='s1', n=3`: texts are quoted."""
    return ", ".join(f"{name}={quoted(row[name])}" for name in names)
