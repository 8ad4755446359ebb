"""Current results: the newest row of each identity, of the base and of what the state has gained since (merge on read)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.engine.state_layout import TABLE
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED, HASH, KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.nodes.rows.node_frames import NodeFrames


def rows_of_table(state: DataFrame, table: str) -> DataFrame:
    """The rows of one table of a state, as they lie, with HASH and BATCH."""
    return state.where(F.col(TABLE) == table).select(f"{quote(table)}.*", HASH, BATCH)


def changes(state: DataFrame) -> DataFrame:
    """The rows of current results that a state has gained: each as it was after a micro-batch."""
    return rows_of_table(state, RESULTS)


def newest(rows: DataFrame, *also_by: str, age: str = BATCH) -> DataFrame:
    """The row of each KEY with the highest BATCH. In: age  another column that says which row is newer."""
    by_age = Window.partitionBy(KEY, *also_by).orderBy(F.col(age).desc())
    return rows.withColumn("__age", F.row_number().over(by_age)).where("__age = 1").drop("__age")


def pending(state: DataFrame, folded: int) -> DataFrame:
    """The newest row of each identity that has changed since the base, with DELETED."""
    return newest(changes(state).where(F.col(BATCH) > folded))


def current_in_state(state: DataFrame) -> DataFrame:
    """The current row of each identity that a state holds, with columns of its own."""
    return newest(changes(state)).where(~F.col(DELETED))


def current(frames: NodeFrames) -> DataFrame:
    """The current row of each identity, with the columns of the base."""
    if frames.state is None:
        return frames.results
    since = pending(frames.state, frames.folded)
    columns = [F.col(quote(name)) for name in frames.results.columns]
    untouched = frames.results.join(since.select(KEY), KEY, "left_anti").select(*columns)
    return untouched.unionByName(since.where(~F.col(DELETED)).select(*columns))
