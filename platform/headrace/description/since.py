"""Tables of some days alone: from a date on."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from headrace.description.clocks import STREAM
from headrace.description.epoch_time import milliseconds
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.node import Node
    from headrace.description.stream import Stream


def checked_since(since: object) -> str:
    """The date as ISO text.

    Raises: DescriptionError when it is none, or lies before 1970
    """
    try:
        date = since if type(since) is dt.date else dt.date.fromisoformat(since)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        date = None
    if date is None or date.year < 1970:
        raise DescriptionError(
            f"named: since {a_value(since)} is no date.", hint="Write a UTC day such as '2026-11-20'."
        )
    return date.isoformat()


def since_ms(since: str) -> int:
    """The beginning of the day in ms since 1970."""
    return milliseconds(dt.datetime.fromisoformat(since))


def records_since(node: Node, since: str) -> Stream:
    """The records of a node's stream that its windows from a date on are made of.

    Raises: DescriptionError when windows from before reach into that day
    """
    window = vars(node).get("window")  # nodes that can be read as streams have a method of this name
    if window is None or not window.tumbles or node.clock != STREAM or since_ms(since) % window.size_ms:
        raise DescriptionError(
            f"named: since {since!r} needs tumbling windows of event time, one of which begins with that day.",
            hint="Leave since= out; or choose a size by which a day can be divided, such as '1 hour'.",
        )
    stream: Stream = node.stream  # type: ignore[attr-defined]
    return stream.where(f"record_timestamp() >= timestamp_millis({since_ms(since)})")
