"""Values of rows: which are equal, in what order they stand, and how they are shown.

Law: null is lowest and NaN the highest number; -0.0 is 0.0; texts go by their bytes; an array comes before those that it
begins. A MAP is a list of pairs (name, value), as Arrow gives it; the order of its entries does not matter.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

Identity = tuple[Any, ...]
UNCHANGING = frozenset({str, bytes, bool, int, float, Decimal, dt.datetime, dt.date, type(None)})
_AS_THEY_ARE = UNCHANGING - {float, type(None)}


def ordered(value: Any) -> Any:
    """A value that compares, and is equal, as values of one type are; it can be a key of a dict."""
    if type(value) in _AS_THEY_ARE:
        return (1, value)
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value + 0.0)
    if isinstance(value, Mapping):
        return (1, *map(ordered, value.values()))
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return (1, *sorted(map(ordered, value)))
    if isinstance(value, list | tuple):
        return (1, *map(ordered, value))
    return (1, value)


def plain(value: Any) -> Any:
    """The value of a key as it is shown: without -0.0."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def identity(values: Iterable[Any]) -> Identity:
    """Equal for equal keys."""
    return tuple(map(ordered, values))
