"""Aggregates once more, in plain Python: the value of each kind over the values of a group, in the log's order.

Nothing here is shared with the engine. Numbers are added as fractions, and rounded to a double once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One aggregate. `digits`: DECIMAL(digits, places) is the type; None: a float, or a whole number (`places` is 0)."""

    kind: str
    scale: int = 6
    max_items: int = 0
    digits: int | None = None
    places: int = 0
    floating: bool = False


def rounded(value: Any, asked: Asked) -> Fraction | None:
    """The number that is added; None: it has too many digits."""
    kept = 15 if asked.kind in ("variance", "stddev") else 28
    with localcontext(prec=700):
        if asked.floating:
            if not math.isfinite(value):
                return None
            places, number = asked.scale, Decimal(repr(float(value)))
        else:
            places, number = min(asked.places, min(asked.digits or 38, 28)), Decimal(value)
        number = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
        return Fraction(number) if abs(number) < Decimal(10) ** (kept - places) else None


def usable(value: Any, asked: Asked) -> bool:
    """Whether a value, null too, can enter the aggregate."""
    if value is None or asked.kind not in ("sum", "avg", "variance", "stddev"):
        return True
    return rounded(value, asked) is not None


def aggregate(values: Sequence[Any], asked: Asked) -> Any:
    """The value of an aggregate; of count(column) too. Sums of DECIMAL are fractions."""
    known = [value for value in values if value is not None]
    match asked.kind:
        case "count":
            return len(known)
        case "first":
            return values[0] if values else None
        case "last":
            return values[-1] if values else None
        case "collect":
            return known[: asked.max_items]
        case "min" | "max":
            best = (min if asked.kind == "min" else max)(known, key=_order, default=None)
            return best + 0.0 if isinstance(best, float) else best
    exact = [number for number in (rounded(value, asked) for value in known) if number is not None]
    n, total = len(exact), sum(exact, Fraction(0))
    if asked.kind == "sum":
        return _sum(total, asked) if n else None
    if asked.kind == "avg":
        return float(total) / n if n else None
    if n < 2:
        return None
    variance = float(n * sum(number * number for number in exact) - total * total) / float(n * (n - 1))
    return math.sqrt(variance) if asked.kind == "stddev" else variance


def _sum(total: Fraction, asked: Asked) -> Any:
    if asked.floating:
        return float(total)
    if asked.digits is None:
        return int(total) if -(2**63) <= total < 2**63 else None
    return total if abs(total) < Fraction(10) ** (38 - asked.places) else None


def _order(value: Any) -> Any:
    """As SQL orders: NaN is the highest number, texts go by their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value
