"""Aggregates whose result does not depend on how the records were grouped on the way.

Law: all merge exactly. Floats are rounded to `scale` decimals one by one and accumulated as DECIMAL. Approximate ones
approximate each record by itself, and merge what is left exactly. Each raises DescriptionError for a column that is no text.

In place of a column each takes SQL over one record, as "price * quantity". `where` is SQL of a condition: only records for
which it is true count, as of FILTER in SQL. A group of whose records none counts has a row all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.description.code_identity import code_of_workers
from headrace.description.several_columns import Columns, direction_of, of_columns, order_of
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.own_aggregate import Aggregate as OwnAggregate

ARITHMETIC = ("sum", "avg", "variance", "stddev")
RANKED = ("max_by", "min_by", "top")
BOUNDED = ("collect", "top")
APPROXIMATE = {"approx_count_distinct": (0.005, 0.25), "quantiles": (0.0001, 0.1)}  # each with its errors
NUMERIC = (*ARITHMETIC, "quantiles")
# Kinds that compare values or positions. Once a row counts, it cannot be taken out again.
ORDERED = ("min", "max", "first", "last", "collect", *RANKED, "count_distinct", "approx_count_distinct")
OWN = "own"  # of somebody who wrote it
KINDS = ("count", *ARITHMETIC, *ORDERED, "quantiles", OWN)
SCALE_DEFAULT = 6
SCALE_MAX = 12
AT_DECIMALS = 6  # of a quantile


@dataclass(frozen=True)
class Aggregate:
    """One aggregate.

    kind       one of `KINDS`
    column     the input column; None: `count` of all records
    scale      the decimals that are kept of a float
    max_items  how many values `collect` and `top` keep
    by         the column by which `max_by`, `min_by` and `top` rank records
    order      of `top` by several columns: each with its direction, as "price DESC"; `by` is a STRUCT of them
    ties       of `top` whether records that rank as high as the last one are kept, too
    error      the relative error of kinds that are approximate
    at         the quantiles that are asked for
    own        what somebody wrote; inputs: the columns that it reads
    where      SQL of a condition: the records that count; None once a column holds it (see `aggregate_inputs`)
    """

    kind: str
    column: str | None
    scale: int
    max_items: int | None = None
    by: str | None = None
    error: float | None = None
    at: tuple[float, ...] | None = None
    own: OwnAggregate | None = None
    inputs: tuple[str, ...] = ()
    where: str | None = None
    order: tuple[str, ...] | None = None
    ties: bool | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DescriptionError(
                f"aggregate: unknown kind {a_value(self.kind)}; kinds are {listed(KINDS)}."
            )
        self._check_columns()
        if (
            isinstance(self.scale, bool)
            or not isinstance(self.scale, int)
            or not 0 <= self.scale <= SCALE_MAX
        ):
            raise DescriptionError(
                f"{self.kind}: scale {a_value(self.scale)} is not a whole number from 0 to {SCALE_MAX}.",
                hint="Scale is the number of decimals to which each float is rounded; 6 is the default.",
            )
        if (self.kind in BOUNDED) != (type(self.max_items) is int and self.max_items > 0):
            bound = "n" if self.kind == "top" else "max_items"
            raise DescriptionError(
                f"{self.kind}: {bound} {a_value(self.max_items)} is not a positive number of values to keep.",
                hint=f"Write for example {_EXAMPLES.get(self.kind, _EXAMPLES['collect'])}.",
            )
        self._check_error()
        self._check_quantiles()

    @property
    def in_words(self) -> str:
        """As it is written in a description."""
        if self.own is not None:
            return f"{self.own.named}({', '.join(self.inputs)})"
        where = None if self.where is None else repr(self.where)
        by = self.by if self.order is None else f"({', '.join(self.order)})"
        options = {"by": by, "ties": self.ties, "at": None if self.at is None else [*self.at], "where": where}
        given = [str(self.max_items)] if self.kind == "top" else []
        given += [] if self.column is None else [self.column]
        given += [f"{name}={value}" for name, value in options.items() if value is not None]
        return f"{self.kind}({', '.join(given)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads: the input column, then the one that ranks."""
        if self.own is not None:
            return self.inputs
        return tuple(name for name in (self.column, self.by) if name is not None)

    @property
    def ascending(self) -> tuple[bool, ...]:
        """Whether the lowest value of each column of `order` is first; empty: there is no `order`."""
        return tuple(direction_of(each)[1] for each in self.order or ())

    def rules(self) -> dict[str, Any]:
        """Its rules, on which its result depends, as JSON."""
        if self.own is not None:
            stated = {"state": self.own.state, "result": self.own.result}
            return {"kind": OWN, "columns": self.inputs, "code": self.code, **stated}
        kept = {name: value for name, value in asdict(self).items() if name not in ("own", "inputs")}
        return {name: value for name, value in kept.items() if value is not None or name == "column"}

    @cached_property
    def code(self) -> Mapping[str, Any]:
        """The code of an aggregate of one's own, as of its description."""
        return {} if self.own is None else code_of_workers(self.own, self.own.named)

    def _check_columns(self) -> None:
        if self.own is not None:
            self.own.check_inputs(self.inputs)
            assert self.code
            return
        example = _EXAMPLES.get(self.kind, f"hr.{self.kind}('value')")
        for name, column, needed in (
            ("", self.column, self.kind != "count"),
            ("by ", self.by, self.kind in RANKED),
        ):
            if column is None and not needed:
                continue
            if not isinstance(column, str) or not column.strip() or (name and not needed):
                raise DescriptionError(
                    f"{self.kind}: {name}{a_value(column)} is not a column name.",
                    hint=f"Write for example {example}.",
                )

    def _check_error(self) -> None:
        if self.kind not in APPROXIMATE and self.error is None:
            return
        lowest, highest = APPROXIMATE.get(self.kind, (0, 0))
        if type(self.error) is not float or not lowest <= self.error <= highest:
            raise DescriptionError(
                f"{self.kind}: error {a_value(self.error)} is not a number from {lowest} to {highest}.",
                hint="It is relative: 0.01 is one percent.",
            )

    def _check_quantiles(self) -> None:
        if self.kind != "quantiles" and self.at is None:
            return
        given = self.at if isinstance(self.at, tuple) else ()
        wrong: list[Any] = [
            q for q in given if type(q) is not float or not 0 <= q <= 1 or round(q, AT_DECIMALS) != q
        ]
        if wrong or not given:
            found = a_value(wrong[0] if wrong else self.at)
            raise DescriptionError(
                f"{self.kind}: at {found} is not a number from 0 to 1 with at most {AT_DECIMALS} decimals.",
                hint=f"Write for example {_EXAMPLES['quantiles']}.",
            )


_EXAMPLES = {
    "collect": "hr.collect('value', max_items=100)",
    "max_by": "hr.max_by('page', by='seconds')",
    "min_by": "hr.min_by('page', by='seconds')",
    "top": "hr.top(3, 'page', by='seconds')",
    "quantiles": "hr.quantiles('seconds', at=[0.5, 0.99])",
}


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """Count the records of a group, or those whose `column` is not null.

    Out: BIGINT
    """
    return Aggregate("count", column, 0, where=where)


def sum(column: str, scale: int = SCALE_DEFAULT, *, where: str | None = None) -> Aggregate:
    """Add the values of a number column.

    In:     scale  decimals to which each float is rounded before it is added
    Out:    BIGINT of whole numbers, DECIMAL(38, s) of decimals, else DOUBLE
    Law:    the sum is exact, so the order of the records does not show in it
    Raises: DescriptionError for a column that is no name, or a scale that is no number of decimals
    """
    return Aggregate("sum", column, scale, where=where)


def min(column: str, *, where: str | None = None) -> Aggregate:
    """Keep the lowest value of `column`. Out: of the column's type."""
    return Aggregate("min", column, 0, where=where)


def max(column: str, *, where: str | None = None) -> Aggregate:
    """Keep the highest value of `column`. Out: of the column's type."""
    return Aggregate("max", column, 0, where=where)


def avg(column: str, scale: int = SCALE_DEFAULT, *, where: str | None = None) -> Aggregate:
    """Divide the exact sum of `column` by the number of its values that are not null.

    In:     scale  decimals to which each float is rounded before it is added
    Out:    DOUBLE
    Raises: DescriptionError for a column that is no name, or a scale that is no number of decimals
    """
    return Aggregate("avg", column, scale, where=where)


def variance(column: str, scale: int = SCALE_DEFAULT, *, where: str | None = None) -> Aggregate:
    """Compute the sample variance of a number column.

    In:     scale  decimals to which each value is rounded first; a value has at most 15 digits
    Out:    DOUBLE; null if there are fewer than two values
    Raises: DescriptionError for a column that is no name, or a scale that is no number of decimals
    """
    return Aggregate("variance", column, scale, where=where)


def stddev(column: str, scale: int = SCALE_DEFAULT, *, where: str | None = None) -> Aggregate:
    """Compute the square root of the sample variance: see `variance`."""
    return Aggregate("stddev", column, scale, where=where)


def first(column: Columns, *, where: str | None = None) -> Aggregate:
    """Keep the value of `column` in the first record, in the log's order; null counts as a value, so there is no `where`.

    In:     column  or several, as a list: then the value is a STRUCT of them
    """
    return Aggregate("first", of_columns(column), 0, where=where)


def last(column: Columns, *, where: str | None = None) -> Aggregate:
    """Keep the value of `column`, or of several, in the last record, in the log's order: see `first`."""
    return Aggregate("last", of_columns(column), 0, where=where)


def collect(column: Columns, max_items: int, *, where: str | None = None) -> Aggregate:
    """Collect the first `max_items` values of `column` that are not null.

    In:     column  or several, as a list: then each value is a STRUCT of them, and none is null
    Out:    an array in the log's order
    Raises: DescriptionError for a column that is no name, or a `max_items` that is no positive number
    """
    return Aggregate("collect", of_columns(column), 0, max_items, where=where)


def max_by(value: Columns, by: Columns, *, where: str | None = None) -> Aggregate:
    """Keep `value` of the record with the highest `by`; null counts as a value.

    The first in the log's order counts, if several records have the same `by`. A record whose `by` is null does not
    count. NaN is the highest number.

    In:     value  a column; or several, as a list: then a STRUCT of them
            by     of several columns, as a list, the first that differs decides; null is the lowest value of each
    Out:    of the type of `value`; null if no record counts
    """
    return Aggregate("max_by", of_columns(value), 0, by=of_columns(by), where=where)


def min_by(value: Columns, by: Columns, *, where: str | None = None) -> Aggregate:
    """Keep `value` of the record with the lowest `by`: see `max_by`."""
    return Aggregate("min_by", of_columns(value), 0, by=of_columns(by), where=where)


def top(n: int, value: Columns, by: Columns, *, ties: bool = False, where: str | None = None) -> Aggregate:
    """Collect `value` of the `n` records with the highest `by`; null counts as a value.

    Records with the same `by` stand in the log's order. A record whose `by` is null does not count.

    In:     value  as of `max_by`
            by    a column; or several as ORDER BY has them, as ("price DESC", "ts"): the first `n` in this order. There
                  null is the lowest value, and each record counts
            ties  whether records are kept, too, that rank as high as the last of the `n`
    Out:    an array, the first in the order first; empty if no record counts
    Raises: DescriptionError for a column that is no name, or an `n` that is no positive number
    """
    order, column = order_of(by)
    return Aggregate("top", of_columns(value), 0, n, column, where=where, order=order, ties=ties or None)


def count_distinct(column: str, *, where: str | None = None) -> Aggregate:
    """Count the different values of `column` that are not null, exactly.

    The state holds each of them. `approx_count_distinct` holds a bounded number of bytes.

    Out:    BIGINT
    """
    return Aggregate("count_distinct", column, 0, where=where)


def approx_count_distinct(column: str, error: float = 0.02, *, where: str | None = None) -> Aggregate:
    """Count the different values of `column` that are not null, approximately.

    In:     error  the relative standard error
    Out:    BIGINT
    Law:    the same values give the same number, in any order and however they were grouped
    Raises: DescriptionError for a column that is no name, or an error out of bounds
    Source: HyperLogLog (Flajolet and others, 2007) with the estimator of Ertl, "New cardinality estimation algorithms for
    HyperLogLog sketches" (2017).
    """
    return Aggregate("approx_count_distinct", column, 0, error=error, where=where)


def quantiles(
    column: str, at: Sequence[float], error: float = 0.01, *, where: str | None = None
) -> Aggregate:
    """Find quantiles of the numbers in `column`, each with a relative error of at most `error`.

    In:     at  the quantiles, as [0.5, 0.99]
    Out:    ARRAY<DOUBLE>, one value for each of `at`; null if there is no number
    Law:    each number is rounded to the binary digits that `error` asks for. The quantiles of the rounded numbers are
            exact: of n numbers the one at place ceil(q * n), from the lowest. NaN is the highest number
    Raises: DescriptionError for a column that is no name, a quantile outside 0 to 1, or an error out of bounds
    """
    given: Any = at
    if isinstance(at, Sequence) and not isinstance(at, str):
        given = tuple(float(q) if isinstance(q, int | float) and not isinstance(q, bool) else q for q in at)
    return Aggregate("quantiles", column, 0, error=error, at=given, where=where)
