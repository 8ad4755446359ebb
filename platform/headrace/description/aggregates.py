"""Aggregates whose result does not depend on how the records were grouped on the way.

Law: all merge exactly; floats are rounded to `scale` decimals one by one and accumulated as DECIMAL.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

KINDS = ("count", "sum", "min", "max", "avg")
SCALE_DEFAULT = 6
SCALE_MAX = 12


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: kind, input column (None: `count` of all records), and the decimals kept of a float."""

    kind: str
    column: str | None
    scale: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DescriptionError(
                f"aggregate: unknown kind {a_value(self.kind)}; kinds are {listed(KINDS)}."
            )
        self._check_column()
        if (
            isinstance(self.scale, bool)
            or not isinstance(self.scale, int)
            or not 0 <= self.scale <= SCALE_MAX
        ):
            raise DescriptionError(
                f"{self.kind}: scale {a_value(self.scale)} is not a whole number from 0 to {SCALE_MAX}.",
                hint="Scale is the number of decimals to which each float is rounded; 6 is the default.",
            )

    def _check_column(self) -> None:
        nameless = self.column is None and self.kind == "count"
        if not nameless and (not isinstance(self.column, str) or not self.column.strip()):
            raise DescriptionError(
                f"{self.kind}: {a_value(self.column)} is not a column name.",
                hint=f"Write for example hr.{self.kind}('value').",
            )


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
