"""Times and milliseconds since 1970."""

from __future__ import annotations

import datetime as dt

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def moment(ms: int) -> dt.datetime:
    """Milliseconds since 1970 as a time in UTC."""
    return EPOCH + dt.timedelta(milliseconds=ms)


def milliseconds(at: dt.datetime) -> int:
    """A time as milliseconds since 1970: the inverse of `moment`. Microseconds go; a time without a zone is of UTC."""
    return ((at if at.tzinfo else at.replace(tzinfo=dt.UTC)) - EPOCH) // dt.timedelta(milliseconds=1)
