"""The cuts of a topic's log: through which commit, and the highest event time that went."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from headrace.lake import small_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.description import Topic
    from headrace.lake.paths import Lake


def note_cut(lake: Lake, topic: Topic, through_ms: int, highest_event_ms: int | None) -> int | None:
    """Note a cut before its rows go; an earlier one counts, too. Out: the highest event time that went so far."""
    before = small_files.read_json(lake.cut(topic.name)) or {}
    times = [at for at in (before.get("highest_event_ms"), highest_event_ms) if at is not None]
    highest_ms = max(times, default=None)
    small_files.write_json(lake.cut(topic.name), {"through_ms": through_ms, "highest_event_ms": highest_ms})
    return highest_ms


def cut_through(lake: Lake, topics: Iterable[str]) -> dict[str, int]:
    """The commit time through which each log was cut; a log that was not is left out."""
    cuts = {topic: small_files.read_json(lake.cut(topic)) for topic in topics}
    return {topic: cut["through_ms"] for topic, cut in cuts.items() if cut is not None}


def first_whole_day(lake: Lake, topics: Iterable[str]) -> dt.date | None:
    """The first UTC day of which no record was cut off these logs; None: that is not known, or no record was."""
    cuts = [small_files.read_json(lake.cut(topic)) for topic in topics]
    noted = [cut["highest_event_ms"] for cut in cuts if cut is not None]
    if len(noted) < len(cuts):
        return None  # a cut that was broken off before it was noted
    return day_after(max((at for at in noted if at is not None), default=None))


def day_after(ms: int | None) -> dt.date | None:
    """The first UTC day that begins after a moment."""
    return None if ms is None else dt.datetime.fromtimestamp(ms / 1000, dt.UTC).date() + dt.timedelta(days=1)


def holds_since(lake: Lake, topic: str, since_ms: int) -> bool:
    """True if it is known that no record with an event time at or after a moment was cut off a log."""
    found = small_files.read_json(lake.cut(topic))
    if found is None:
        return False  # a cut that was broken off before it was noted
    highest_ms = found["highest_event_ms"]
    return highest_ms is None or highest_ms < since_ms
