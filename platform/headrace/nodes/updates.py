"""Raw updates, conflated per micro-batch: what each row was worth after each micro-batch that touched it.

Law: each identity's row with the highest BATCH, nulls last, is what the node's results and open windows hold. The rows in
between depend on the cuts: they show what people saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import Suppressed, quote
from headrace.fold.contract import BATCH, DELETED
from headrace.nodes import state_views
from headrace.nodes.current_results import revisions
from headrace.nodes.state_frames import StateFrame
from headrace.spark.same_rows import rows_not_of

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import Node
    from headrace.nodes.bound_operator import BoundOperator
    from headrace.nodes.node_frames import NodeFrames
    from headrace.nodes.progress import Progress


def updates(of: BoundOperator, frames: NodeFrames, progress: Progress) -> DataFrame:
    """The node's columns, others that begin with `__`, and BATCH (null: the last word)."""
    node = of.operator.node
    if node.day_column is None:
        return revisions(frames, node.columns)
    if isinstance(node, Suppressed):
        return _worth(of, frames)
    finals = frames.results.withColumn(BATCH, F.lit(None).cast("long"))
    is_open = of.operator.kernel.open_state
    if frames.state is None or is_open is None or is_open.updates is None:
        return finals
    if is_open.moves:
        return _sessions(of, frames, progress, finals)
    running = state_views.running_windows(of, StateFrame(frames.state), progress.clock)
    return finals.unionByName(running, allowMissingColumns=True)


def _sessions(of: BoundOperator, frames: NodeFrames, progress: Progress, finals: DataFrame) -> DataFrame:
    """Open sessions after each micro-batch that touched them.

    A session that became part of another, or grew, is gone under its old bounds. Its last row there is a row of nulls.
    """
    assert frames.state is not None
    node = of.operator.node
    users, identity = _columns(node), [F.col(quote(name)) for name in node.key]
    running = state_views.running_windows(of, StateFrame(frames.state), progress.clock).where(~F.col(DELETED))
    running = running.select(*users, F.col(BATCH).cast("long"))
    still_open = state_views.open_windows(of, StateFrame(frames.state), progress.clock)
    assert still_open is not None
    known = finals.select(*identity).unionByName(still_open.select(*identity))
    gone = rows_not_of(running.select(*identity).distinct(), known, node.key)
    last_word = gone.select(*identity, F.lit(None).cast("long").alias(BATCH))
    both = finals.select(*users, BATCH).unionByName(running)
    return both.unionByName(last_word, allowMissingColumns=True)


def _worth(of: BoundOperator, frames: NodeFrames) -> DataFrame:
    """The values of each entry after each micro-batch that touched it. For a forgotten entry: the row that left last."""
    node = of.operator.node
    users, groups = _columns(node), [F.col(quote(name)) for name in node.key]
    left = F.struct("__sequence", F.col("__offset").isNull(), "__offset", "__sub", "__opened_ms")
    others = [F.col(quote(name)) for name in node.columns if name not in node.key]
    last = frames.results.groupBy(*groups).agg(F.max_by(F.struct(*others), left).alias("__row"))
    before = last.select(*groups, "__row.*").select(*users, F.lit(0).cast("long").alias(BATCH))
    if frames.state is None:
        return before
    now = state_views.worth(of, StateFrame(frames.state))
    return before.unionByName(now.select(*users, F.col(BATCH).cast("long")))


def _columns(node: Node) -> list[Expr]:
    return [F.col(quote(name)) for name in node.columns]
