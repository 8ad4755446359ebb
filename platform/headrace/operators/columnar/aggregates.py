"""Mergeable aggregates by Arrow: what it sums and compares exactly as Spark does (the law: `operators.aggregates`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from headrace.description import quote
from headrace.operators.aggregates import (
    FLOATS,
    SMALL_INTEGERS,
    exactly,
    spelling,
    without_negative_zero,
)
from headrace.spark.one_task import COMPARED, NotCertainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr

    from headrace.description import Aggregate

INTEGERS = pa.decimal128(19, 0)  # as which BIGINT is summed, to 38 digits
ALWAYS = ("__records", "__event_ms")  # in partials beside those of the aggregates

Wanted = dict[str, tuple[str | None, str]]  # of each column its source (None: rows), and Arrow's function


@dataclass(frozen=True)
class Part:
    """One partial column, `__<aggregate>_<suffix>`.

    source    the column of inputs; None: rows are counted
    function  Arrow's, over inputs; over partials counts are summed
    type      of the partial column, and of what is summed
    """

    name: str
    source: str | None
    function: str
    type: pa.DataType

    @property
    def merge(self) -> str:
        """Arrow's function over partials."""
        return "sum" if self.function.startswith("count") else self.function


@dataclass(frozen=True)
class ArrowAggregates:
    """The aggregates of a node.

    parts     of all of them
    finished  of each: its name, its kind, its parts, and the type of its result
    """

    parts: tuple[Part, ...]
    finished: tuple[tuple[str, str, tuple[Part, ...], pa.DataType], ...]

    @property
    def kept_for_results(self) -> list[str]:
        """The columns of partials that results are made of, beside those of groups."""
        return [*(part.name for part in self.parts), *ALWAYS]

    def partials(
        self, rows: pa.Table, by: Sequence[str], mask: pa.Array, also: Sequence[str] = ()
    ) -> pa.Table:
        """Partial aggregates of some rows.

        In:     rows  `by`, the inputs, `__event_ms`, `also`
                mask  which of them
                also  of these columns the highest value is kept, too
        Out:    `by`, the parts, `ALWAYS`, `also`; one row per group
        """
        sources = (part.source for part in self.parts if part.source is not None)
        rows = rows.select([*dict.fromkeys((*by, "__event_ms", *also, *sources))]).filter(mask)
        columns = {name: rows[name] for name in rows.column_names}
        wanted: Wanted = {"__records": (None, "count_all")}
        for part in self.parts:
            source = part.source
            if source is not None and part.function == "sum" and pa.types.is_integer(rows[source].type):
                column, source = rows[source], f"{source}:summed"
                columns[source] = column.cast(part.type if pa.types.is_integer(part.type) else INTEGERS)
            wanted[part.name] = source, part.function
        return self._grouped(pa.table(columns), by, wanted, ("__event_ms", *also))

    def merged(self, partials: pa.Table, by: Sequence[str]) -> pa.Table:
        """Partial aggregates of partial aggregates; columns as `partials` gives them, without `also`."""
        wanted: Wanted = {part.name: (part.name, part.merge) for part in self.parts}
        return self._grouped(partials, by, wanted | {"__records": ("__records", "sum")}, ("__event_ms",))

    def _grouped(self, rows: pa.Table, by: Sequence[str], wanted: Wanted, highest: Sequence[str]) -> pa.Table:
        wanted = wanted | {name: (name, "max") for name in highest}
        asked = [([] if source is None else source, function) for source, function in wanted.values()]
        distinct = [each for number, each in enumerate(asked) if each not in asked[:number]]
        for source, _ in wanted.values():
            _require_numbers(rows, source)
        found = rows.group_by([*by], use_threads=False).aggregate(distinct)
        types = {part.name: part.type for part in self.parts}
        columns = {name: found[name] for name in by}
        for name, (source, function) in wanted.items():
            column = found["count_all" if source is None else f"{source}_{function}"]
            columns[name] = column.cast(types.get(name, pa.int64()))
        return pa.table(columns)

    def finish(self, merged: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The aggregates by name, of merged partials."""
        return {
            name: _finished(kind, [merged[part.name] for part in parts], result)
            for name, kind, parts, result in self.finished
        }


def arrow_aggregates(
    aggregates: Sequence[tuple[str, Aggregate]], schema: T.StructType
) -> tuple[ArrowAggregates, Mapping[str, Expr]] | None:
    """The aggregates over rows of this schema, and Spark's expressions for their inputs by name; None: one is Spark's."""
    inputs: dict[str, Expr] = {}
    parts: list[Part] = []
    finished = []
    for name, aggregate in aggregates:
        found = _parts(name, aggregate, schema, inputs)
        if found is None:
            return None
        its_parts, result = found
        parts += its_parts
        finished.append((name, aggregate.kind, its_parts, result))
    return ArrowAggregates(tuple(parts), tuple(finished)), inputs


def _parts(
    name: str, aggregate: Aggregate, schema: T.StructType, inputs: dict[str, Expr]
) -> tuple[tuple[Part, ...], pa.DataType] | None:
    """The parts of one aggregate and the type of its result; its inputs are added to `inputs`."""
    long = pa.int64()
    if aggregate.column is None:
        return (Part(f"__{name}_n", None, "count_all", long),), long
    column = F.col(quote(aggregate.column))
    spelled = spelling(schema, aggregate.column)
    data_type = schema[spelled].dataType
    if aggregate.kind == "count":
        source = f"there:{spelled}"
        inputs[source] = F.when(column.isNotNull(), F.lit(True))
        return (Part(f"__{name}_n", source, "count", long),), long
    if aggregate.kind in ("min", "max") and isinstance(data_type, (*COMPARED, T.DecimalType, *FLOATS)):
        source = f"value:{spelled}"
        inputs[source] = without_negative_zero(column, data_type)
        part = Part(f"__{name}_value", source, aggregate.kind, to_arrow_type(data_type))
        return (part,), part.type
    if aggregate.kind not in ("sum", "avg"):
        return None
    exact, sum_type, result_type = exactly(column, data_type, aggregate.scale)
    source = f"value:{spelled}"
    if isinstance(data_type, (*SMALL_INTEGERS, T.LongType)):
        inputs[source] = column
    else:
        source = f"exact:{aggregate.scale}:{spelled}"
        inputs[source] = exact
    total = Part(f"__{name}_sum", source, "sum", to_arrow_type(sum_type))
    if aggregate.kind == "sum":
        return (total,), to_arrow_type(result_type)
    return (total, Part(f"__{name}_n", source, "count", long)), pa.float64()


def _require_numbers(rows: pa.Table, source: str | None) -> None:
    """Spark puts what is no number above all others, Arrow passes it over."""
    if (
        source is not None
        and pa.types.is_floating(rows[source].type)
        and pc.any(pc.is_nan(rows[source])).as_py()
    ):
        raise NotCertainError(f"{source} is not a number")


def _finished(kind: str, parts: Sequence[pa.ChunkedArray], result: pa.DataType) -> pa.ChunkedArray:
    if kind == "avg":
        total, n = _doubles(parts[0]), parts[1].cast(pa.float64())
        return pc.divide(total, pc.if_else(pc.equal(n, 0.0), pa.scalar(None, pa.float64()), n))
    value = parts[0]
    if kind == "sum" and pa.types.is_floating(result):
        return _doubles(value)
    try:
        return value.cast(result)
    except pa.ArrowInvalid as error:  # beyond what the type holds Spark's is null
        raise NotCertainError(f"{kind}: {error}") from None


def _doubles(exact: pa.ChunkedArray) -> pa.ChunkedArray:
    """The double nearest to each number: by way of its digits, for Arrow rounds decimals otherwise."""
    return exact.cast(pa.string()).cast(pa.float64())
