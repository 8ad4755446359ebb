"""What a join holds of its sides and of its result, and what a micro-batch adds: rows by part.

The state table keeps the changes of all parts, so that one commit adds them. A row of it belongs to one part, `__part`;
the struct column of that part holds the row, the others are null.
Law: a change is a whole row as it stands after its micro-batch. So of several the last counts, and any counts more than
what is folded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.operators.operator import Held
from headrace.operators.tables.latest import columns, latest, union
from headrace.spark.frames import Cache
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


RESULT = "result"  # the part that the result table is the base of
FOLDED = 0  # stands for the micro-batches that are folded


@dataclass
class Store:
    """What is held as of a micro-batch, and what keeps frames while the next one is worked out."""

    held: Held = field(default_factory=Held)
    cache: Cache | None = None

    def keep(self, frame: DataFrame, at_most: int | None = None) -> DataFrame:
        """Compute the frame once, if the store has a cache; a small one is then sent to every task.

        In: at_most  how many rows it can have; None: they have to be counted first
        """
        return frame if self.cache is None else self.cache.compute(frame, at_most)

    def pending(self, part: str) -> DataFrame | None:
        """The changes of a part that are not folded, with `__batch`; None: none."""
        if self.held.state is None:
            return None
        changes = self.held.state.where(F.col("__part") == part)
        return changes.select(f"{part}.*", "__batch")

    def folded(self, part: str) -> DataFrame | None:
        """The rows of a part that are folded, with `__deleted`; None: none."""
        base = self.held.results if part == RESULT else self.held.parts.get(part)
        if base is None:
            return None
        gone = F.col("__gone") if "__gone" in base.columns else F.lit(False)
        return base.withColumn("__deleted", gone).drop("__gone")

    def lookup(self, part: str, key: Sequence[str], by: Sequence[str], wanted: DataFrame) -> DataFrame | None:
        """The current rows, deleted ones too, whose columns `by` are among those of `wanted`; None: there are none.

        In: key     the identity of the part's rows
            wanted  columns `by`, each row once
        """
        base, pending = self.folded(part), self.pending(part)
        held = [] if base is None else [base.withColumn("__batch", F.lit(FOLDED))]
        held += [] if pending is None else [pending]
        if not held:
            return None
        rows = [frame.join(wanted, [*by], "left_semi") for frame in held]
        if [*by] == [*key]:
            return latest(union(rows), key, F.col("__batch")).drop("__batch")
        # A row that was among those wanted may not be any more: the newest of each key tells.
        if base is not None:
            rows[0] = self.keep(rows[0])
        if pending is not None:
            known = union([frame.select(*columns(key)) for frame in rows]).distinct()
            rows[-1] = pending.join(known, [*key], "left_semi")
        current = latest(union(rows), key, F.col("__batch")).drop("__batch")
        return current.join(wanted, [*by], "left_semi")

    def changed(self, part: str, key: Sequence[str]) -> DataFrame | None:
        """Of each key with changes that are not folded its current row, deleted ones too; None: none has."""
        pending = self.pending(part)
        return None if pending is None else latest(pending, key, F.col("__batch")).drop("__batch")

    def current(self, part: str, key: Sequence[str]) -> DataFrame | None:
        """All current rows, deleted ones too; None: there are none."""
        base, changed = self.folded(part), self.changed(part, key)
        if base is None or changed is None:
            return changed if base is None else base
        return union([base.join(changed.select(*columns(key)), [*key], "left_anti"), changed])


def state_columns(schemas: Mapping[str, StructType]) -> dict[str, list[Column]]:
    """For each part the columns of its rows in the state table, but `__batch`; to make one costs calls into the JVM."""
    return {
        part: [
            F.lit(part).alias("__part"),
            *(
                (F.struct(*columns(of.names)) if name == part else F.lit(None).cast(of)).alias(name)
                for name, of in schemas.items()
            ),
        ]
        for part in schemas
    }


def as_state(
    changes: Mapping[str, DataFrame], parts: Mapping[str, Sequence[Column]], batch: int
) -> DataFrame:
    """The rows of the state table that a micro-batch adds.

    In: changes  for each part its rows; parts: as `state_columns` gives them
    """
    at = varying(batch).cast("int").alias("__batch")
    return union([rows.select(at, *parts[part]) for part, rows in changes.items()])
