"""Where a topic's log starts: "earliest", "latest", or a point in time."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.description.epoch_time import milliseconds
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

WORDS = ("earliest", "latest")
_HINT = "Write 'earliest', 'latest' or a time with its zone, for example '2026-01-31T00:00:00Z'."


def normalised_start(start: object, what: str) -> str:
    """The start as text: a word, or a time in UTC to the millisecond ("2026-01-31T00:00:00.000Z").

    In: "earliest", "latest", ISO-8601 text or a datetime, either with a time zone; `what` names it in errors.
    Raises: DescriptionError when it is none of these, has no zone, or lies before 1970.
    """
    if isinstance(start, str) and start.lower() in WORDS:
        return start.lower()
    moment = _moment(start, what)
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise DescriptionError(f"{what}: {a_value(start)} has no time zone.", hint=_HINT)
    if moment.timestamp() < 0:
        raise DescriptionError(
            f"{what}: {a_value(start)} is before 1970.", hint="Write 'earliest' to read everything."
        )
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(start: object, what: str) -> datetime:
    if isinstance(start, datetime):
        return start
    try:
        return datetime.fromisoformat(start)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise DescriptionError(f"{what}: {a_value(start)} is not a start.", hint=_HINT) from None


def start_ms(start: str) -> int | None:
    """A normalised start in epoch milliseconds; None for a word."""
    return None if start in WORDS else milliseconds(datetime.fromisoformat(start))
