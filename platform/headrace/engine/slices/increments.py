"""How far the next increment of a node goes: as many log commits as a task can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.engine.slices.log_slices import INGESTED_AT, LogSlice, Origin, files_between
from headrace.fold.values.columns import MOMENT, int64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.lake.paths import Lake

INCREMENT_BYTES = 16 << 20  # of Parquet: about a million narrow records
DECODED_BYTES = 256 << 20  # of keys and values, and of what a row has beside them
CERTAIN_BYTES = 256 << 10  # of Parquet: so few are never more than that when they are decoded
ROW_BYTES = 64  # beside its key and value
SIZE = "size_bytes"


def reach(
    lake: Lake,
    done_ms: Mapping[str, int],
    upto_ms: Mapping[str, int],
    bytes_max: int = INCREMENT_BYTES,
    decoded_max: int = DECODED_BYTES,
) -> int:
    """The commit time through which an increment of some topics goes: all the way, or less if that were too much.

    In:  upto_ms      how far each topic could be read; topics that are not named are left out
         done_ms      through which commit time each is read
         bytes_max    of the logs' files; within one, bytes are taken to be spread evenly over commit time
         decoded_max  of the rows; they are looked at where the files might hold more
    Law: a log commit is taken whole or not at all, and at least one is taken.
    """
    through_ms = _by_files(lake, done_ms, upto_ms, bytes_max)
    slices = [
        LogSlice.of(lake.log(topic), done_ms[topic], min(last_ms, through_ms))
        for topic, last_ms in upto_ms.items()
        if done_ms[topic] < through_ms
    ]
    if sum(each.bytes for each in slices) <= CERTAIN_BYTES:
        return through_ms
    return min(through_ms, _by_rows(slices, decoded_max) or through_ms)


def _by_rows(slices: Sequence[LogSlice], decoded_max: int) -> int | None:
    """The last commit time through which the rows of slices have no more than so many bytes, or the first; None: all do."""
    wanted = {INGESTED_AT: Origin((INGESTED_AT,), MOMENT), SIZE: Origin((SIZE,), pa.int32())}
    rows = pa.concat_tables([each.read(wanted) for each in slices])
    sizes = int64(rows[SIZE]) + ROW_BYTES
    if int(sizes.sum()) <= decoded_max:
        return None
    at_ms = int64(rows[INGESTED_AT].cast(pa.int64())) // 1_000
    commits, which = np.unique(at_ms, return_inverse=True)
    fitting = int(np.searchsorted(np.cumsum(np.bincount(which, sizes)), decoded_max, side="right"))
    return None if fitting == len(commits) else int(commits[max(fitting - 1, 0)])


def _by_files(lake: Lake, done_ms: Mapping[str, int], upto_ms: Mapping[str, int], bytes_max: int) -> int:
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
    for file in files_between(uri, done_ms, upto_ms).values():
        first_ms, last_ms = (
            int(ends.get(INGESTED_AT, otherwise * 1_000)) // 1_000
            for ends, otherwise in ((file.lowest, done_ms + 1), (file.highest, upto_ms))
        )
        own = max(first_ms, done_ms + 1), min(last_ms, upto_ms)
        share = (own[1] - own[0] + 1) / (last_ms - first_ms + 1)
        found.append((*own, file.size * share))
    return found


def _share(part: tuple[int, int, float], through_ms: int) -> float:
    first_ms, last_ms, size = part
    return size * min(max((through_ms - first_ms + 1) / (last_ms - first_ms + 1), 0.0), 1.0)
