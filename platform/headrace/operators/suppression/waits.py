"""Which wait each update belongs to: a fold over the updates of an entry, inside Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.folds import found_in
from headrace.operators.sequence import in_order
from headrace.operators.suppression.timeline import PLACE
from headrace.operators.tables.latest import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

WAIT = {  # of a wait, beside the columns of its entry and `__partition`
    "__opened_ms": "bigint",  # the timestamp of the update that opened it
    "__opened_offset": "bigint",  # its offset
    "__opened_after_ms": "bigint",  # the expiry time once it was put; null: in an earlier increment
    "__opened_place": f"struct<{', '.join(f'{name}: bigint' for name in PLACE)}>",  # its place; null likewise
}
COLUMNS = (
    "__offset", "__ingested_ms", "__stream_ms", "__event_ms", "__before_ms", "__after_ms", "__sub", "__size_bytes",
)  # fmt: skip


def assign_waits(
    updates: DataFrame,
    held: DataFrame | None,
    *,
    entry: Sequence[str],
    inputs: Sequence[str],
    highest: bool,
) -> DataFrame:
    """The updates with the wait that each joins or opens.

    In:     updates  `entry`, `__partition`, `COLUMNS`, `inputs`; one row per update
            held     for each entry touched before: `entry`, `__partition`, `__event_ms`, and of its open wait `__opened_ms`
                     and `__opened_offset` (null: none is open); None: nothing was
            highest  whether an update's timestamp is the highest of its entry so far
    Out:    the same columns and `WAIT`
    Law:    an update joins the open wait, opened at t, exactly if the expiry time before it is below t.
    """
    keys = [*columns(entry), F.col("__partition")]
    record = F.struct(*COLUMNS, *(F.col(quote(name)) for name in inputs))
    groups = updates.groupBy(*keys).agg(F.collect_list(record).alias("__new"))
    groups = groups.withColumn("__new", in_order(groups, "__new", ("__offset",)))
    before = {"__event_ms": "__held_event_ms", "__opened_ms": "__held_ms", "__opened_offset": "__held_offset"}
    if held is None:
        joined = groups.select("*", *(F.lit(None).cast("long").alias(name) for name in before.values()))
    else:
        known = held.select(*keys, *(F.col(name).alias(alias) for name, alias in before.items()))
        joined = groups.join(known, [*entry, "__partition"], "left")
    opened = joined.withColumn("__openings", _openings(highest))
    waits = opened.select(*keys, F.inline(_waits()))
    return waits.select(*keys, *WAIT, F.inline("__own"))


def _openings(highest: bool) -> Expr:
    """The places (from 1) in `__new` of the updates that open a wait, each with its timestamp."""

    def step(acc: Expr, update: Expr) -> tuple[dict[str, Expr], Expr, Expr]:
        own = update["__event_ms"]
        ts = F.greatest(acc["high"], own) if highest else own
        over = acc["opened"].isNull() | F.coalesce(update["__before_ms"] >= acc["opened"], F.lit(False))
        after = {
            "opened": F.when(over, ts).otherwise(acc["opened"]),
            "high": ts,
            "next": acc["next"] + 1,
        }
        return after, over, F.struct(acc["next"].alias("place"), ts.alias("opened"))

    begun = {
        "opened": F.col("__held_ms").cast("long"),
        "high": F.col("__held_event_ms").cast("long"),
        "next": F.lit(1).cast("int"),
    }
    return found_in(F.col("__new"), begun, step, "struct<place: int, opened: bigint>")


def _waits() -> Expr:
    """One struct for each wait, with its own stretch of `__new`."""
    new, openings = F.col("__new"), F.col("__openings")
    first = F.coalesce(F.get(openings, F.lit(0))["place"], F.size(new) + 1)
    joining = F.struct(F.lit(1).alias("place"), F.col("__held_ms").alias("opened"))
    starts = F.when(first > 1, F.concat(F.array(joining), openings)).otherwise(openings)

    def wait(start: Expr, number: Expr) -> Expr:
        following = F.coalesce(F.get(starts, number + 1)["place"], F.size(new) + 1)
        joins = (first > 1) & (number == 0)
        opening = F.get(new, start["place"] - 1)
        place = F.struct(*(opening[f"__{name}"].cast("long").alias(name) for name in PLACE))
        return F.struct(
            start["opened"].alias("__opened_ms"),
            F.when(joins, F.col("__held_offset")).otherwise(opening["__offset"]).alias("__opened_offset"),
            F.when(~joins, opening["__after_ms"]).alias("__opened_after_ms"),
            F.when(~joins, place).alias("__opened_place"),
            F.slice(new, start["place"], following - start["place"]).alias("__own"),
        )

    return F.transform(starts, wait)
