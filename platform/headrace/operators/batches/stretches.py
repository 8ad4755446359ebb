"""Which parts of the log hold the records of batches that close: few of its commits, though it may be long.

A batch keeps the commit times of its records while these are few. One with more is large enough that reading everything
since it opened is in proportion to it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column as Expr

    Stretch = tuple[int, int]

COMMITS_MAX = 64  # of one batch
STRETCHES_MAX = 24  # of one reading: each is a pair of predicates by which Delta skips files


def commits_of(continued: Expr, known: Expr, own: Expr) -> Expr:
    """The distinct commit times of a batch's records; null when there are too many.

    In: continued  whether the batch was open before; known: what it had then; own: those of its new records
    """
    before = F.when(continued, known).otherwise(F.array().cast("array<bigint>"))
    together = F.array_distinct(F.concat(before, own))
    return F.when(F.size(together) <= COMMITS_MAX, together)


def stretches(commits_ms: Iterable[int], opened_ms: int | None, upto_ms: int) -> list[Stretch]:
    """The commit times as few intervals, both ends included, rising and apart.

    In:     opened_ms  everything from here through `upto_ms` is needed too; None: nothing besides the commits
    Law:    each commit time lies in an interval; at most `STRETCHES_MAX` of them, cut where the gaps are widest.
    """
    rest = sorted({ms for ms in commits_ms if opened_ms is None or ms < opened_ms})
    tail = [] if opened_ms is None else [(opened_ms, upto_ms)]
    if not rest:
        return tail
    gaps = sorted(pairwise(rest), key=lambda pair: pair[0] - pair[1])[: STRETCHES_MAX - 1 - len(tail)]
    ends = sorted(left for left, _ in gaps)
    starts = sorted(right for _, right in gaps)
    return [*zip([rest[0], *starts], [*ends, rest[-1]], strict=True), *tail]
