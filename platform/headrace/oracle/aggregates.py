"""Aggregates, value by value: what a group's records are worth so far, in the log's order.

Numbers are added exactly: a float is rounded half up to the scale of the aggregate first, and the sum becomes a double once,
at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.epoch_time import moment
from headrace.oracle.sketches import estimated, quantiles
from headrace.oracle.values import ordered, plain

if TYPE_CHECKING:
    from headrace.description import Aggregate
    from headrace.description.own_aggregate import Aggregate as Own
    from headrace.oracle.log import Row

Described = Sequence[tuple[str, "Aggregate"]]
ADDED = ("sum", "avg", "variance", "stddev")
SQUARED = ("variance", "stddev")
SEEN = ("count_distinct", "approx_count_distinct", "quantiles")


def usable(value: Any, aggregate: Aggregate) -> bool:
    """Whether a value, null too, can enter an aggregate: numbers that are added may have so many digits."""
    return value is None or aggregate.kind not in ADDED or exact(value, aggregate) is not None


def can_be_added(values: Sequence[Any], aggregate: Aggregate) -> bool:
    """Whether what a user wrote takes these values of a record."""
    assert aggregate.own is not None
    try:
        _state(aggregate.own.add(_state(aggregate.own.init(), aggregate.own), *values), aggregate.own)
    except Exception:
        return False
    return True


def _state(value: Any, own: Own) -> Any:
    """A state with the declared types, as it is kept."""
    return _converted(value, pa.struct([(of.name, arrow_type(of.type)) for of in own.state_columns]))


def _converted(value: Any, declared: pa.DataType) -> Any:
    """A value of the declared type: an int where a DOUBLE is declared becomes one. Raises: ArrowInvalid if it has none."""
    return pa.array([value], declared).to_pylist()[0]


def exact(value: Any, aggregate: Aggregate) -> int | None:
    """The number that is added, in units of its last place; None: it is none, or has too many digits."""
    places = _places(value, aggregate)
    digits = (15 if aggregate.kind in SQUARED else 28) - places
    with localcontext(prec=700):
        if isinstance(value, float):
            if not math.isfinite(value):
                return None
            value = Decimal(repr(value))
        number = Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
        return int(number.scaleb(places)) if abs(number) < Decimal(10) ** digits else None


def _places(value: Any, aggregate: Aggregate) -> int:
    """How many decimals are kept: of a float the aggregate's, of a DECIMAL its own, at most 28."""
    return aggregate.scale if isinstance(value, float) else min(_scale(value), 28)


def _scale(value: Any) -> int:
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    assert isinstance(exponent, int)
    return max(0, -exponent)


@dataclass
class Total:
    """One aggregate. Values are added in the log's order.

    known   how many were not null; like: one of these
    seen    what count_distinct, approx_count_distinct and quantiles look at in the end
    ranked  of max_by, min_by and top the values so far, the best first, each with what ranks it
    """

    aggregate: Aggregate
    known: int = 0
    like: Any = None
    total: int = 0
    squares: int = 0
    chosen: Any = None
    begun: bool = False
    collected: list[Any] = field(default_factory=list)
    ranked: list[tuple[Any, Any]] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    def add(self, value: Any, by: Any = None, *more: Any) -> None:
        """Add a value that is usable; a null too. In: by  what ranks it, or a second value of one's own; more: others."""
        kind = self.aggregate.kind
        if self.aggregate.own is not None:
            self.seen.append((value, by, *more)[: len(self.aggregate.inputs)])
            return
        if self.aggregate.by is not None:
            self._rank(value, by)
            return
        if kind == "last" or (kind == "first" and not self.begun):
            self.chosen = value
        self.begun = True
        if value is None:
            return
        self.known, self.like = self.known + 1, value
        if kind in ADDED:
            number = exact(value, self.aggregate)
            assert number is not None
            self.total, self.squares = self.total + number, self.squares + number * number
        elif kind in ("min", "max"):
            better = self.known == 1 or (ordered(value) < ordered(self.chosen)) == (kind == "min")
            self.chosen = value if better else self.chosen
        elif kind in SEEN:
            self.seen.append(value)
        elif kind == "collect" and self.known <= (self.aggregate.max_items or 0):
            self.collected.append(value)

    def _rank(self, value: Any, by: Any) -> None:
        """Insert a value behind those that rank as high."""
        if by is None:
            return
        place = 0
        for _, other in self.ranked:
            if self._is_ahead(by, other):
                break
            place += 1
        self.ranked.insert(place, (value, by))
        most = self.aggregate.max_items or 1
        while len(self.ranked) > most:
            if self.aggregate.ties and not self._is_ahead(self.ranked[most - 1][1], self.ranked[-1][1]):
                break
            del self.ranked[-1]

    def _is_ahead(self, by: Any, other: Any) -> bool:
        """Whether a record that is ranked by one value stands before one ranked by another."""
        if self.aggregate.kind == "min_by":
            return bool(ordered(by) < ordered(other))
        for name, lowest_first in zip(
            by if self.aggregate.order else (), self.aggregate.ascending, strict=True
        ):
            one, two = ordered(by[name]), ordered(other[name])
            if one != two:
                return bool(one < two if lowest_first else one > two)
        return not self.aggregate.order and bool(ordered(by) > ordered(other))

    def value(self) -> Any:
        """The value as of now."""
        if (own := self.aggregate.own) is not None:
            state = _state(own.init(), own)
            for values in self.seen:
                state = _state(own.add(state, *values), own)
            return _converted(own.finish(state), arrow_type(own.result))
        match self.aggregate.kind:
            case "max_by" | "min_by":
                return self.ranked[0][0] if self.ranked else None
            case "top":
                return [value for value, _ in self.ranked]
            case "count":
                return self.known
            case "count_distinct":
                return len({ordered(value) for value in self.seen})
            case "approx_count_distinct":
                return estimated(self.seen, self.aggregate.error or 0)
            case "quantiles":
                return quantiles(self.seen, self.aggregate.at or (), self.aggregate.error or 0)
            case "collect":
                return [*self.collected]
            case "first" | "last":
                return self.chosen
            case "min" | "max":
                return self.chosen + 0.0 if isinstance(self.chosen, float) else self.chosen
            case "sum":
                return self._sum() if self.known else None
            case "avg":
                return float(self._exact_total()) / self.known if self.known else None
        variance = self._variance() if self.known > 1 else None
        return variance if variance is None or self.aggregate.kind == "variance" else math.sqrt(variance)

    def _exact_total(self) -> Fraction:
        return Fraction(self.total, 10 ** _places(self.like, self.aggregate))

    def _sum(self) -> Any:
        """A double, a BIGINT, or DECIMAL(38, its scale); null where it does not fit."""
        if isinstance(self.like, float):
            return float(self._exact_total())
        if not isinstance(self.like, Decimal):
            return self.total if -(2**63) <= self.total < 2**63 else None
        fits = abs(self._exact_total()) < Fraction(10) ** (38 - _scale(self.like))
        with localcontext(prec=100):
            return Decimal(self.total).scaleb(-_places(self.like, self.aggregate)) if fits else None

    def _variance(self) -> float:
        """The variance of the sample."""
        n, places = self.known, _places(self.like, self.aggregate)
        return float(Fraction(n * self.squares - self.total**2, 10 ** (2 * places))) / float(n * (n - 1))


class Group:
    """A group of records: its columns and what they are worth.

    last  the record that was added last
    """

    def __init__(self, by: Sequence[str], aggregates: Described) -> None:
        """Nothing is added yet."""
        self.by, self.totals = by, [(name, Total(aggregate)) for name, aggregate in aggregates]
        self.records = 0
        self.event_ms: int | None = None
        self.last: Row | None = None

    def add(self, row: Row) -> Group:
        """Add a record; the group itself."""
        for _, total in self.totals:
            total.add(*([row.values[name] for name in total.aggregate.columns] or [True]))
        self.records, self.last = self.records + 1, row
        self.event_ms = row.time_ms if self.event_ms is None else max(self.event_ms, row.time_ms)
        return self

    def shown(self) -> dict[str, Any]:
        """The group columns and the aggregates."""
        assert self.last is not None
        return {name: plain(self.last.values[name]) for name in self.by} | self.worth()

    def window(self, start_ms: int, end_ms: int) -> dict[str, Any]:
        """The group as a window with these bounds."""
        return self.shown() | {"window_start": moment(start_ms), "window_end": moment(end_ms)}

    def worth(self) -> dict[str, Any]:
        """The aggregates."""
        return {name: total.value() for name, total in self.totals}


class Aggregated(Protocol):
    """A description with groups and aggregates."""

    @property
    def by(self) -> Sequence[str]:
        """The group columns."""

    @property
    def aggregates(self) -> Described:
        """By name."""


def updated(node: Aggregated, before: Group | None, row: Row, *, keep: bool) -> tuple[Group, int]:
    """A group with one more record, and its highest timestamp. In: keep  whether the values are wanted, too."""
    group = (before or Group(node.by, node.aggregates if keep else ())).add(row)
    assert group.event_ms is not None
    return group, group.event_ms


def aggregated(values: Iterable[Any], aggregate: Aggregate) -> Any:
    """The value of an aggregate over values in the log's order; over pairs, of one that ranks values by others."""
    total = Total(aggregate)
    for value in values:
        total.add(*(value if aggregate.by is not None else (value,)))
    return total.value()
