"""How far the next increment of a node goes: as many log commits as a task can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lake import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.lake.paths import Lake

INCREMENT_BYTES = 16 << 20  # of Parquet: about a million narrow records
COLUMN = "ingested_at"


def reach(
    lake: Lake,
    done_ms: Mapping[str, int],
    upto_ms: Mapping[str, int],
    bytes_max: int = INCREMENT_BYTES,
) -> int:
    """The commit time through which an increment of some topics goes: all the way, or less if that were too much.

    In:  upto_ms  how far each topic could be read; topics that are not named are left out
         done_ms  through which commit time each is read
    Law: a log commit is taken whole or not at all, and at least one is taken. The logs' files and their statistics alone are
         looked at; within a file bytes are taken to be spread evenly over commit time.
    """
    stretches = [
        part for topic, last in upto_ms.items() for part in _stretches(lake.log(topic), done_ms[topic], last)
    ]
    last_ms = max(upto_ms.values())
    if sum(size for *_, size in stretches) <= bytes_max:
        return last_ms
    low, high = min(first for first, *_ in stretches), last_ms
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_share(part, middle) for part in stretches) <= bytes_max:
            low = middle
        else:
            high = middle - 1
    return low


def _stretches(uri: str, done_ms: int, upto_ms: int) -> list[tuple[int, int, float]]:
    """For each file of a log its first and last commit time that is not read yet, and about how many bytes they have."""
    found = []
    files = open_table(uri).snapshot().within(COLUMN, (done_ms + 1) * 1_000, upto_ms * 1_000 + 999)
    for file in files.values():
        first_ms, last_ms = (
            int(ends.get(COLUMN, otherwise * 1_000)) // 1_000
            for ends, otherwise in ((file.lowest, done_ms + 1), (file.highest, upto_ms))
        )
        own = max(first_ms, done_ms + 1), min(last_ms, upto_ms)
        share = (own[1] - own[0] + 1) / (last_ms - first_ms + 1)
        found.append((*own, file.size * share))
    return found


def _share(part: tuple[int, int, float], through_ms: int) -> float:
    first_ms, last_ms, size = part
    return size * min(max((through_ms - first_ms + 1) / (last_ms - first_ms + 1), 0.0), 1.0)
