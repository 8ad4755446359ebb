"""Aggregates whose result does not depend on how the records were grouped on the way.

Law: all merge exactly. Floats are rounded to `scale` decimals one by one and accumulated as DECIMAL. Approximate ones
approximate each record by itself, and merge what is left exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.schema import ResultColumn, is_decimal, is_integral, parse_type
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.own_aggregate import Aggregate as OwnAggregate
    from headrace.description.shape import Shape

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
    error      the relative error of kinds that are approximate
    at         the quantiles that are asked for
    own        what somebody wrote; inputs: the columns that it reads
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
        options = {"by": self.by, "at": None if self.at is None else [*self.at]}
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

    def rules(self) -> dict[str, Any]:
        """Its rules, on which its result depends, as JSON."""
        if self.own is not None:
            return {"kind": OWN, "columns": self.inputs, **self.own.rules()}
        kept = {name: value for name, value in asdict(self).items() if name not in ("own", "inputs")}
        return {name: value for name, value in kept.items() if value is not None or name == "column"}

    def _check_columns(self) -> None:
        if self.kind == OWN:
            self._check_inputs()
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

    def _check_inputs(self) -> None:
        assert self.own is not None
        wrong = [name for name in self.inputs if not isinstance(name, str) or not name.strip()]
        if wrong or not self.inputs:
            raise DescriptionError(
                f"{self.own.named}: {a_value(wrong[0]) if wrong else 'nothing'} is not a column name.",
                hint=f"Name the columns that `add` gets: {self.own.named}().of('value').",
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


def count(column: str | None = None) -> Aggregate:
    """The number of records, or of those whose `column` is not null."""
    return Aggregate("count", column, 0)


def sum(column: str, scale: int = SCALE_DEFAULT) -> Aggregate:
    """The exact sum of `column`; each float is first rounded to `scale` decimals."""
    return Aggregate("sum", column, scale)


def min(column: str) -> Aggregate:
    """The lowest value of `column`."""
    return Aggregate("min", column, 0)


def max(column: str) -> Aggregate:
    """The highest value of `column`."""
    return Aggregate("max", column, 0)


def avg(column: str, scale: int = SCALE_DEFAULT) -> Aggregate:
    """The exact sum of `column` over its count; each float is first rounded to `scale` decimals."""
    return Aggregate("avg", column, scale)


def variance(column: str, scale: int = SCALE_DEFAULT) -> Aggregate:
    """The sample variance of `column`, null below two values; inputs have at most 15 digits, `scale` of them decimals."""
    return Aggregate("variance", column, scale)


def stddev(column: str, scale: int = SCALE_DEFAULT) -> Aggregate:
    """The square root of the sample variance of `column`."""
    return Aggregate("stddev", column, scale)


def first(column: str) -> Aggregate:
    """The value of `column`, null too, in the first record in the log's order."""
    return Aggregate("first", column, 0)


def last(column: str) -> Aggregate:
    """The value of `column`, null too, in the last record in the log's order."""
    return Aggregate("last", column, 0)


def collect(column: str, max_items: int) -> Aggregate:
    """The first `max_items` values of `column` that are not null, in the log's order, as an array."""
    return Aggregate("collect", column, 0, max_items)


def max_by(value: str, by: str) -> Aggregate:
    """The `value`, null too, in the record with the highest `by`; of several such the first in the log's order.

    A record whose `by` is null does not count. NaN is the highest number.
    """
    return Aggregate("max_by", value, 0, by=by)


def min_by(value: str, by: str) -> Aggregate:
    """The `value`, null too, in the record with the lowest `by`; of several such the first in the log's order.

    A record whose `by` is null does not count. NaN is the highest number.
    """
    return Aggregate("min_by", value, 0, by=by)


def top(n: int, value: str, by: str) -> Aggregate:
    """An array of `value`, null too, in the `n` records with the highest `by`, the highest first.

    Records with the same `by` stand in the log's order. A record whose `by` is null does not count.
    """
    return Aggregate("top", value, 0, n, by)


def count_distinct(column: str) -> Aggregate:
    """The exact number of different values of `column` that are not null.

    The state holds each of them. `approx_count_distinct` holds a bounded number of bytes.
    """
    return Aggregate("count_distinct", column, 0)


def approx_count_distinct(column: str, error: float = 0.02) -> Aggregate:
    """About how many different values of `column` there are that are not null; `error`: relative standard error.

    Source: HyperLogLog (Flajolet and others, 2007) with the estimator of Ertl, "New cardinality estimation algorithms for
    HyperLogLog sketches" (2017).
    """
    return Aggregate("approx_count_distinct", column, 0, error=error)


def quantiles(column: str, at: Sequence[float], error: float = 0.01) -> Aggregate:
    """An array of quantiles of the numbers in `column`, each with a relative error of at most `error`.

    Each number is rounded to the binary digits that `error` asks for. The quantiles of these are exact: of n numbers the
    one at place ceil(q * n), from the lowest. NaN is the highest number. The result is null if there is no number.
    """
    given: Any = at
    if isinstance(at, Sequence) and not isinstance(at, str):
        given = tuple(float(q) if isinstance(q, int | float) and not isinstance(q, bool) else q for q in at)
    return Aggregate("quantiles", column, 0, error=error, at=given)


def aggregate_column(shape: Shape, name: str, aggregate: Aggregate) -> ResultColumn:
    """The column that an aggregate makes of a stream of this shape."""
    if aggregate.own is not None:
        meaning = f"{aggregate.own.named} of {listed([f'`{column}`' for column in aggregate.inputs])}."
        return ResultColumn(name, parse_type(aggregate.own.result, aggregate.own.named), meaning)
    if aggregate.column is None:
        return ResultColumn(name, "BIGINT", "Number of records.")
    return ResultColumn(name, _result_type(shape, aggregate.kind, aggregate.column), _meaning(aggregate))


def _meaning(aggregate: Aggregate) -> str:
    match aggregate.kind:
        case "max_by" | "min_by":
            best = "highest" if aggregate.kind == "max_by" else "lowest"
            return f"`{aggregate.column}` of the record with the {best} `{aggregate.by}`."
        case "top":
            return f"`{aggregate.column}` of the {aggregate.max_items} records with the highest `{aggregate.by}`."
        case "count_distinct":
            return f"Number of different values of `{aggregate.column}`."
        case "approx_count_distinct":
            return f"About the number of different values of `{aggregate.column}`, error {aggregate.error}."
        case "quantiles":
            return f"Quantiles {listed(map(str, aggregate.at or ()))} of `{aggregate.column}`, error {aggregate.error}."
    bound = f", the first {aggregate.max_items}" if aggregate.max_items else ""
    return f"{aggregate.kind.capitalize()} of `{aggregate.column}`{bound}."


def _result_type(shape: Shape, kind: str, column: str) -> str:
    known = shape.type_of(column)
    of = known.type if known else "computed"
    if kind in ("count", "count_distinct", "approx_count_distinct"):
        return "BIGINT"
    if kind == "quantiles":
        return "ARRAY<DOUBLE>"
    if kind in ("avg", "variance", "stddev"):
        return "DOUBLE"
    if kind in BOUNDED:
        return f"ARRAY<{of}>" if known else of
    if kind != "sum" or not known:
        return of
    if is_integral(of):
        return "BIGINT"
    return of.replace(of[len("DECIMAL(") : of.index(",")], "38", 1) if is_decimal(of) else "DOUBLE"
