"""Numbers, times and lists as people read them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

VALUE_CHARACTERS = 60
DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
UNDOES = "undoes what other programs did"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 record`, `1,234 records`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(ratio: float) -> str:
    """A ratio as a percentage that never rounds a difference away."""
    for digits in (2, 4, 6):
        if ratio == 0 or round(ratio * 100, digits) > 0:
            return f"{ratio * 100:.{digits}f}%"
    return f"{ratio * 100:.2g}%"


def amount(difference: int) -> str:
    """`3 too few`, `1 too many`."""
    return f"{abs(difference):,} too {'few' if difference < 0 else 'many'}"


def moment(ms: int | None) -> str:
    """A time in ms since 1970, as UTC; seconds and milliseconds where there are any."""
    if ms is None:
        return "no time yet"
    at = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)
    precision = "milliseconds" if ms % 1000 else "seconds" if ms % 60_000 else "minutes"
    return f"{at.replace(tzinfo=None).isoformat(sep=' ', timespec=precision)} UTC"


def span(ms: int) -> str:
    """`3 days`, `5 hours`, `1 minute`."""
    for size, unit in ((DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute")):
        if ms >= size:
            return counted(ms // size, unit)
    return "less than a minute"


def joined(words: Sequence[object], *, at_most: int = 5) -> str:
    """`a, b and c`; `a, b and 7 more` when there are many."""
    shown = [str(word) for word in words[:at_most]]
    if len(words) > at_most:
        shown.append(f"{len(words) - at_most:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def repair_of(topics: Sequence[str]) -> str:
    """The command that mends a log or a state which another program has changed. In: topics  as the books name them."""
    commands = [f"`headrace repair {topic}`" for topic in topics if "@" not in topic]  # not the log of a node
    return f"stop the stream and run {joined(commands or ['`headrace repair TOPIC`'])}"


def short(value: object, characters: int = VALUE_CHARACTERS) -> str:
    """A value from the data on one line, cut to a readable length."""
    text = " ".join(str(value).split())
    return text if len(text) <= characters else text[: characters - 1] + "…"


def quoted(value: object) -> str:
    """A value from the data on one line; a text in quotes."""
    return repr(short(value)) if isinstance(value, str) else short(value)


def group_text(row: Mapping[str, Any], names: Iterable[str]) -> str:
    """`sensor_id=s1, site=north`."""
    return ", ".join(f"{name}={short(row[name])}" for name in names)
