"""Several columns in the place of one: as one STRUCT, and as an order with directions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.description.wording import a_value
from headrace.errors import DescriptionError

Columns = str | Sequence[str]  # one column, or several
_DIRECTION = re.compile(r"\s+(ASC|DESC)\s*$", re.IGNORECASE)


def of_columns(column: Columns) -> str:
    """The SQL of one value of a column, or of several."""
    if isinstance(column, str) or not isinstance(column, Sequence):
        return column
    if not column or any(not isinstance(name, str) or not name.strip() for name in column):
        raise DescriptionError(
            f"aggregate: {a_value(column)} are no columns.",
            hint="Write for example hr.collect(['page', 'at'], 10).",
        )
    return f"struct({', '.join(column)})"


def order_of(by: Columns) -> tuple[tuple[str, ...] | None, str]:
    """The columns of an order with their directions, and the SQL of their values; None: it is one column without any."""
    several = (by,) if isinstance(by, str) and _DIRECTION.search(by) else by
    if isinstance(several, str) or not isinstance(several, Sequence):
        return None, several
    of_columns(several)
    return tuple(several), of_columns([direction_of(each)[0] for each in several])


def direction_of(text: str) -> tuple[str, bool]:
    """A column of an order, and whether the lowest is first."""
    found = _DIRECTION.search(text)
    return (text, True) if found is None else (text[: found.start()], found[1].upper() == "ASC")
