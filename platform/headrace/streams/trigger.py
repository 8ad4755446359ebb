"""The shortest time between two micro-batches of a stream's queries, as a person sets it while they run.

It is a file of the lake and not of a log: no row depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import DescriptionError
from headrace.lake import small_files
from headrace.settings.streams import TRIGGER_LEAST_MS, TRIGGER_MOST_MS
from headrace.writing.rate_limited import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.lake.paths import Lake

READ_EVERY_SECONDS = 5.0


def set_trigger(lake: Lake, stream: str, trigger_ms: int) -> None:
    """Set it, or with 0 leave it to the run's configuration again; running streams follow within seconds.

    Raises: DescriptionError for a bad value: what was set before stays.
    """
    if trigger_ms == 0:
        small_files.delete(lake.trigger(stream))
        return
    if not TRIGGER_LEAST_MS <= trigger_ms <= TRIGGER_MOST_MS:
        raise DescriptionError(
            f"trigger_ms: {trigger_ms} is not from {TRIGGER_LEAST_MS} to {TRIGGER_MOST_MS:,}.",
            hint="0: as the run's configuration says.",
        )
    small_files.write_json(lake.trigger(stream), {"trigger_ms": trigger_ms})


def trigger_set(lake: Lake, stream: str) -> int | None:
    """Read the interval that is set for a stream; None: none is."""
    content = small_files.read_json(lake.trigger(stream))
    return None if content is None else int(content["trigger_ms"])


class FollowedTrigger:
    """The interval of a stream that runs: the one that a person has set, or that of its settings."""

    def __init__(self, lake: Lake, stream: str, usual_ms: int, warn: Callable[[str], None]) -> None:
        """In: usual_ms  that of the settings; warn  is told when what is set cannot be read: the last one stays."""
        self._set = RateLimited(lambda: trigger_set(lake, stream), READ_EVERY_SECONDS)
        self._usual_ms, self._warn = usual_ms, warn
        self._known_ms = usual_ms

    def now_ms(self) -> int:
        """The interval, in ms. It is read again every five seconds."""
        try:
            self._known_ms = self._set() or self._usual_ms
        except Exception as error:  # the lake is away: the queries say so too
            self._warn(f"The trigger interval that was set could not be read: {error}")
        return self._known_ms
