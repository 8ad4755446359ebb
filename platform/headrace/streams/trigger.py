"""The shortest time between two micro-batches of a stream's queries, as a person sets it while they run.

It is a file of the lake and not of a log: no row depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import DescriptionError
from headrace.lake import small_files

if TYPE_CHECKING:
    from headrace.lake.paths import Lake

LEAST_MS, MOST_MS = 50, 3_600_000


def set_trigger(lake: Lake, stream: str, trigger_ms: int) -> None:
    """Set it, or with 0 leave it to the run's configuration again; running streams follow within seconds.

    Raises: DescriptionError for a bad value: what was set before stays.
    """
    if trigger_ms == 0:
        small_files.delete(lake.trigger(stream))
        return
    if not LEAST_MS <= trigger_ms <= MOST_MS:
        raise DescriptionError(
            f"trigger_ms: {trigger_ms} is not from {LEAST_MS} to {MOST_MS:,}.",
            hint="0: as the run's configuration says.",
        )
    small_files.write_json(lake.trigger(stream), {"trigger_ms": trigger_ms})


def trigger_set(lake: Lake, stream: str) -> int | None:
    """Read the interval that is set for a stream; None: none is."""
    content = small_files.read_json(lake.trigger(stream))
    return None if content is None else int(content["trigger_ms"])
