"""Pieces of an increment: runs of whole log commits that each fit a number of decoded bytes.

Law: the pieces, one after the other, are the increment: each row is in one of them, and the clocks of a piece are those of
the log around its commits. A single log commit is never cut; the sequencer bounds its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.fold.columns import int64
from headrace.fold.contract import INGESTED, Times

Piece = tuple[pa.Table, Times]


def pieces_of(rows: pa.Table, times: Times, bytes_max: int) -> list[Piece]:
    """Cut an increment. In: bytes_max  decoded bytes of a piece of several log commits."""
    if rows.nbytes <= bytes_max or len(times.commits) < 2:
        return [(rows, times)]
    at_ms = np.array([ms for ms, _ in times.commits], np.int64)
    commit = np.minimum(np.searchsorted(at_ms, int64(rows[INGESTED])), len(at_ms) - 1)
    if (np.diff(commit) < 0).any():
        order = np.argsort(commit, kind="stable")
        rows, commit = rows.take(pa.array(order)), commit[order]
    starts = np.searchsorted(commit, np.arange(len(at_ms) + 1))
    sizes = [rows.slice(starts[n], starts[n + 1] - starts[n]).nbytes for n in range(len(at_ms))]
    return [
        (rows.slice(starts[first], starts[end] - starts[first]), _times(times, first, end))
        for first, end in _runs(sizes, bytes_max)
    ]


def _runs(sizes: Sequence[int], bytes_max: int) -> list[tuple[int, int]]:
    """First commit of each piece, and the one after its last."""
    found, first, total = [], 0, 0
    for number, size in enumerate(sizes):
        if number > first and total + size > bytes_max:
            found.append((first, number))
            first, total = number, 0
        total += size
    return [*found, (first, len(sizes))]


def _times(times: Times, first: int, end: int) -> Times:
    """The clocks of some commits. Limits that were set before them stand as those of time 0."""
    commits = times.commits
    is_last = end == len(commits)
    after_ms = commits[first - 1][0] if first else None
    through_ms = None if is_last else commits[end - 1][0]

    def is_begun(ms: int) -> bool:
        return after_ms is not None and ms <= after_ms

    def is_over(ms: int) -> bool:
        return through_ms is None or ms <= through_ms

    return Times(
        before=commits[first - 1][1] if first else times.before,
        after=times.after if is_last else commits[end - 1][1],
        commits=commits[first:end],
        drains=[ms for ms in times.drains if is_over(ms) and not is_begun(ms)],
        limits=[(0 if is_begun(ms) else ms, said) for ms, said in times.limits if is_over(ms)],
    )
