"""How much is open in each partition after each log commit: for a suppression that shuts down when too much is.

Law: what is open after a commit is a function of the log through that commit. A window of a group counts once in each
partition that has records of it, with the bytes of its row as JSON, made of that partition's records alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.description.limits import limited, policy_of
from headrace.description.suppression import SHUT_DOWN, Policy
from headrace.fold.aggregates.kind import whole
from headrace.fold.bounds import BYTES, RECORDS, SIZE_CHANGES, judge, limits_of_node
from headrace.fold.contract import INGESTED, PARTITION, TOPIC
from headrace.fold.kernel import OfOneFeed
from headrace.fold.segments import HIGHEST, NO_TIME, begins

if TYPE_CHECKING:
    from headrace.description import Node, WindowedAggregate
    from headrace.errors import TerminalError
    from headrace.fold.bounds import Sizes
    from headrace.fold.contract import Times

SIZES = "open_sizes"
BEFORE = NO_TIME  # as a commit time: before the micro-batch


def shuts_down(node: Node) -> bool:
    """Whether a node has to stop when too much is open."""
    return node.suppressed_by is not None and node.suppressed_by.bound.when_full == SHUT_DOWN


@dataclass(frozen=True)
class StopsWhenFull:
    """The bound of a node whose stream stops when too much is open."""

    node: str
    policy: Policy

    @classmethod
    def of(cls, node: WindowedAggregate) -> StopsWhenFull | None:
        """The bound of a node; None: its stream never stops for it."""
        return cls(node.name or "", policy_of(node)) if shuts_down(node) else None

    def judged(
        self, outputs: Mapping[str, Sequence[pa.Table]], times: Times, sizes: Sizes
    ) -> tuple[Sizes, TerminalError | None]:
        """See `Kernel.judged`. Limits that the policy cannot have alter nothing."""
        of_node = (limits_of_node(text, self.node) for _, text in times.limits)
        bound = limited(self.policy, (limits for limits in of_node if limits is not None)).bound
        return judge(sizes, outputs.get(SIZES, ()), lambda _: bound, self.node, "open windows")


class BoundedWindows(OfOneFeed):
    """Windows whose stream may have to stop when too much is open. In: bounded  None: it never does."""

    bounded: StopsWhenFull | None

    def judged(
        self, outputs: Mapping[str, Sequence[pa.Table]], times: Times, sizes: Sizes
    ) -> tuple[Sizes, TerminalError | None]:
        """By the bound of its open windows."""
        return ({}, None) if self.bounded is None else self.bounded.judged(outputs, times, sizes)


@dataclass(frozen=True)
class Versions:
    """Versions of windows: each is the state of one window from some commit on. Their order does not matter.

    places     TOPIC and PARTITION of each version
    window     the number of its window
    since_ms   the commit that made the version; BEFORE: it existed before the micro-batch
    closes_ms  the commit that closes the window; HIGHEST: no commit of the micro-batch closes it
    size       bytes of the window's row
    gone       whether the window no longer exists under these bounds; None: all windows exist
    """

    places: pa.Table
    window: np.ndarray
    since_ms: np.ndarray
    closes_ms: np.ndarray
    size: np.ndarray
    gone: np.ndarray | None = None


def size_changes(of: Versions) -> pa.Table:
    """How the size of each partition's buffer changes with each log commit.

    Out: as `SIZE_CHANGES`
    Law: a version counts from its commit on, until the next one of its window, or until the window closes. A window that its
         first commit closes was never open after one.
    """
    order = np.lexsort((of.since_ms, of.window))
    since_ms, ends = of.since_ms[order], np.append(begins(of.window[order])[1:], True)
    until_ms = np.append(since_ms[1:], HIGHEST)
    until_ms[ends] = HIGHEST
    until_ms = np.minimum(until_ms, of.closes_ms[order])
    counts = since_ms < until_ms
    if of.gone is not None:
        counts &= ~of.gone[order]
    comes, goes = (np.flatnonzero(counts & moves) for moves in (since_ms != BEFORE, until_ms != HIGHEST))
    at_ms = np.concatenate([since_ms[comes], until_ms[goes]])
    signs = np.repeat(np.array([1, -1]), [len(comes), len(goes)])
    row = order[np.concatenate([comes, goes])]
    found = pa.table(
        {
            INGESTED: pa.array(at_ms),
            **{name: whole(of.places[name].take(pa.array(row))) for name in (TOPIC, PARTITION)},
            RECORDS: pa.array(signs),
            BYTES: pa.array(signs * of.size[row]),
        }
    )
    names = [INGESTED, TOPIC, PARTITION]
    summed = found.group_by(names, use_threads=False).aggregate([(RECORDS, "sum"), (BYTES, "sum")])
    renamed = summed.rename_columns({f"{RECORDS}_sum": RECORDS, f"{BYTES}_sum": BYTES})
    return renamed.select(SIZE_CHANGES.names).cast(SIZE_CHANGES)
