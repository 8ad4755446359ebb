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

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


RESULT = "result"  # the part that the result table is the base of
FOLDED = 0  # stands for the micro-batches that are folded


@dataclass
class Store:
    """What is held as of a micro-batch, and what keeps frames while the next one is worked out."""

    held: Held = field(default_factory=Held)
    cache: Cache | None = None

    def keep(self, frame: DataFrame) -> DataFrame:
        """Compute the frame once, if the store has a cache; a small one is then sent to every task."""
        return frame if self.cache is None else self.cache.compute(frame)

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
        rows = []
        base, pending = self.folded(part), self.pending(part)
        if base is None and pending is None:
            return None
        if base is not None:
            found = base.join(wanted, [*by], "left_semi").withColumn("__batch", F.lit(FOLDED))
            rows.append(self.keep(found))
        if pending is not None:
            keys = [*rows, pending.join(wanted, [*by], "left_semi")]
            known = union([frame.select(*columns(key)) for frame in keys]).distinct()
            rows.append(pending.join(known, [*key], "left_semi"))
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


def as_state(changes: Mapping[str, DataFrame], schemas: Mapping[str, StructType], batch: int) -> DataFrame:
    """The rows of the state table that a micro-batch adds.

    In: changes  for each part its rows, with the columns of its schema
    """
    frames = []
    for part, rows in changes.items():
        values = [
            (F.struct(*columns(schema.names)) if name == part else F.lit(None).cast(schema)).alias(name)
            for name, schema in schemas.items()
        ]
        frames.append(
            rows.select(F.lit(part).alias("__part"), varying(batch).cast("int").alias("__batch"), *values)
        )
    return union(frames)
