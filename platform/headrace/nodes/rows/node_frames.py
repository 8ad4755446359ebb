"""The content of a node's tables as of a micro-batch, as frames; and the results in it, as people see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.nodes.bound_operator import bound
from headrace.nodes.rows import state_views
from headrace.nodes.rows.current_results import current
from headrace.nodes.rows.state_frames import StateFrame
from headrace.operators.contract import SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.description import Node
    from headrace.nodes.progress import Progress


@dataclass(frozen=True)
class NodeFrames:
    """Tables of a node.

    results  rows of the result table
    state    rows of the state table; None: there is none yet
    folded   of results that are revised: the micro-batch through which changes are in `results`
    version  of the result table; None: the newest
    """

    results: DataFrame
    state: DataFrame | None = None
    folded: int = 0
    version: int | None = None


def shown_results(node: Node, frames: NodeFrames, progress: Progress) -> DataFrame:
    """The results as people see them; columns beginning with `__` are internal.

    Out: final windows if suppressed, else every window as of now; the current row of each identity
    """
    if not node.has_days:
        return current(frames)
    if not node.shows_open or frames.state is None:
        return frames.results
    of = bound(frames.state.sparkSession, node)
    windows = state_views.open_windows(of, StateFrame(frames.state), progress.clock)
    assert windows is not None
    return frames.results.unionByName(windows, allowMissingColumns=True)


def is_settled(node: Node, progress: Progress) -> Column:
    """Which rows of the table a log read that far leads to: of current results all, for these tell how far they go."""
    return F.col(SEQUENCE) <= progress.frontier_ms(node) if node.has_days else F.lit(True)
