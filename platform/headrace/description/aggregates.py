"""Aggregates whose result does not depend on how the records were grouped on the way.

Law: all merge exactly; floats are rounded to `scale` decimals one by one and accumulated as DECIMAL.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.schema import ResultColumn, is_decimal, is_integral
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.shape import Shape

ARITHMETIC = ("sum", "avg", "variance", "stddev")
RANKED = ("max_by", "min_by", "top")
BOUNDED = ("collect", "top")
# Kinds that compare values or positions. Once a row counts, it cannot be taken out again.
ORDERED = ("min", "max", "first", "last", "collect", *RANKED)
KINDS = ("count", *ARITHMETIC, *ORDERED)
SCALE_DEFAULT = 6
SCALE_MAX = 12


@dataclass(frozen=True)
class Aggregate:
    """One aggregate.

    kind       one of `KINDS`
    column     the input column; None: `count` of all records
    scale      the decimals that are kept of a float
    max_items  how many values `collect` and `top` keep
    by         the column by which `max_by`, `min_by` and `top` rank records
    """

    kind: str
    column: str | None
    scale: int
    max_items: int | None = None
    by: str | None = None

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

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads: the input column, then the one that ranks."""
        return tuple(name for name in (self.column, self.by) if name is not None)

    def rules(self) -> dict[str, Any]:
        """What its result depends on, as JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None or name == "column"}

    def _check_columns(self) -> None:
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


_EXAMPLES = {
    "collect": "hr.collect('value', max_items=100)",
    "max_by": "hr.max_by('page', by='seconds')",
    "min_by": "hr.min_by('page', by='seconds')",
    "top": "hr.top(3, 'page', by='seconds')",
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


def aggregate_column(shape: Shape, name: str, aggregate: Aggregate) -> ResultColumn:
    """The column that an aggregate makes of a stream of this shape."""
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
    bound = f", the first {aggregate.max_items}" if aggregate.max_items else ""
    return f"{aggregate.kind.capitalize()} of `{aggregate.column}`{bound}."


def _result_type(shape: Shape, kind: str, column: str) -> str:
    known = shape.type_of(column)
    of = known.type if known else "computed"
    if kind == "count":
        return "BIGINT"
    if kind in ("avg", "variance", "stddev"):
        return "DOUBLE"
    if kind in BOUNDED:
        return f"ARRAY<{of}>" if known else of
    if kind != "sum" or not known:
        return of
    if is_integral(of):
        return "BIGINT"
    return of.replace(of[len("DECIMAL(") : of.index(",")], "38", 1) if is_decimal(of) else "DOUBLE"
