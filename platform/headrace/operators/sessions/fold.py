"""Which session each run belongs to: a fold inside Spark, with no Python for a group or a record.

Law: folding an increment with the sessions that were open before it equals folding everything at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.folds import in_chunks
from headrace.operators.partials import merged_columns
from headrace.operators.sequence import in_order
from headrace.operators.sessions.runs import session_windows

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import WindowedAggregate
    from headrace.operators.partials import Aggregates

ITEM = ("__offset", "__start_ms", "__end_ms", "__before_ms", "__old")
PLACE = ("__offset", "__start_ms")
OPEN = "array<struct<id: int, start: bigint, end: bigint>>"
MERGES = "array<struct<gone: int, into: int>>"
CHUNKS = f"array<struct<first: int, ids: array<int>, merges: {MERGES}>>"
KNOWN = "map<int, int>"
BEFORE_ALL = -1  # the offset of sessions that were open before
NOTHING_CLOSED = -(2**62)  # and the stream time at which they are put side by side again


def assigned(items: DataFrame, node: WindowedAggregate, span_ms: tuple[int, int] | None = None) -> DataFrame:
    """Give each run its session.

    In:     items    runs, and the sessions open before them: those with `__offset` `BEFORE_ALL`, and no longer `__old`
            span_ms  only sessions that start in it are asked for, first and last moment; None: all
    Out:    the same rows with `__stretch` and `__session`, which tell the sessions of a group apart; `__session` is null for
            late records
    """
    by = [F.col(quote(name)) for name in node.by]
    group = [*by, F.col("__partition")]
    ordered = Window.partitionBy(*group).orderBy(*PLACE)
    latest_ms = F.max("__end_ms").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    all_closed = F.coalesce(latest_ms + node.longest_wait_ms <= F.col("__before_ms"), F.lit(True))
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    items = items.withColumn("__begins", all_closed.cast("long"))
    items = items.withColumn("__stretch", F.sum("__begins").over(so_far)).drop("__begins")
    grouped = {*node.by, "__partition", "__stretch"}
    rest = [name for name in items.columns if name not in grouped and name not in ITEM]
    item = F.struct(*ITEM, *(F.col(quote(name)) for name in rest))
    stretches = items.groupBy(*group, "__stretch").agg(F.collect_list(item).alias("__items"))
    if span_ms is not None:
        starts = F.transform("__items", lambda one: one["__start_ms"])
        within = (F.array_min(starts) <= span_ms[1]) & (F.array_max(starts) >= span_ms[0])
        stretches = stretches.where(within)
    stretches = stretches.withColumn("__items", in_order(stretches, "__items", PLACE))
    folded = stretches.withColumn("__folded", _fold(node)).withColumn("__ids", _final_ids())
    labelled = F.transform(
        "__items",
        lambda one, at: F.struct(one.alias("__item"), F.get(F.col("__ids"), at).alias("__session")),
    )
    return folded.select(*group, "__stretch", F.inline(labelled)).select(
        *group, "__stretch", "__session", "__item.*"
    )


def merge_sessions(
    items: DataFrame, node: WindowedAggregate, aggregates: Aggregates, inputs: StructType
) -> DataFrame:
    """The sessions that runs make up.

    In:     items  as `assigned` gives them
    Out:    group columns, `__topic`, `__partition`, `__session` (null: the late records of a stretch), partial columns,
            `__records`, `__start_ms`, `__end_ms`; one row per session
    """
    by = [F.col(quote(name)) for name in node.by]
    merged = items.groupBy(*by, "__partition", "__stretch", "__session").agg(
        F.first("__topic").alias("__topic"),
        *merged_columns(aggregates, inputs),
        F.sum("__records").alias("__records"),
        F.min("__start_ms").alias("__start_ms"),
        F.max("__end_ms").alias("__end_ms"),
    )
    return merged.drop("__stretch")


def _fold(node: WindowedAggregate) -> Expr:
    """Of each item in `__items` the session as of then, and which sessions became part of which later; in chunks."""

    def through_chunk(done: Expr, some: Expr) -> Expr:
        inner = F.struct(
            done["open"].alias("open"),
            done["next"].alias("next"),
            F.array().cast(MERGES).alias("merges"),
            F.array().cast("array<int>").alias("ids"),
        )
        return F.aggregate(
            some, inner, lambda acc, item: _step(acc, item, node), lambda end: _with_chunk(done, end)
        )

    return F.aggregate(in_chunks(F.col("__items")), _nothing(), through_chunk, lambda end: end["chunks"])


def _nothing() -> Expr:
    return F.struct(
        F.array().cast(OPEN).alias("open"),
        F.lit(0).alias("next"),
        F.array().cast(CHUNKS).alias("chunks"),
    )


def _with_chunk(done: Expr, end: Expr) -> Expr:
    chunk = F.struct(done["next"].alias("first"), end["ids"].alias("ids"), end["merges"].alias("merges"))
    return F.struct(
        end["open"].alias("open"),
        end["next"].alias("next"),
        F.concat(done["chunks"], F.array(chunk)).cast(CHUNKS).alias("chunks"),
    )


def _step(acc: Expr, item: Expr, node: WindowedAggregate) -> Expr:
    """Put one item into the open sessions near it, which become one; without any into a new one, or it is late."""
    gap_ms, wait_ms = session_windows(node).gap_ms, node.longest_wait_ms
    first, last = item["__start_ms"], item["__end_ms"]

    def is_open(session: Expr) -> Expr:
        return session["end"] + wait_ms > item["__before_ms"]

    def is_near(session: Expr) -> Expr:
        return (session["start"] <= last + gap_ms) & (session["end"] >= first - gap_ms)

    def joined(near: Expr) -> Expr:
        late = item["__old"] & (F.size(near) == 0)
        own = F.coalesce(F.array_min(F.transform(near, lambda session: session["id"])), acc["next"])
        session = F.struct(
            own.alias("id"),
            F.least(first, F.array_min(F.transform(near, lambda s: s["start"]))).alias("start"),
            F.greatest(last, F.array_max(F.transform(near, lambda s: s["end"]))).alias("end"),
        )
        others = F.filter(acc["open"], lambda s: is_open(s) & ~is_near(s))
        gone = F.transform(
            F.filter(near, lambda s: s["id"] != own),
            lambda s: F.struct(s["id"].alias("gone"), own.alias("into")),
        )
        merges = F.when(F.size(near) > 1, F.concat(acc["merges"], gone.cast(MERGES))).otherwise(acc["merges"])
        still = F.when(late, acc["open"]).otherwise(F.concat(others, F.array(session).cast(OPEN)))
        return F.struct(
            still.cast(OPEN).alias("open"),
            (acc["next"] + 1).cast("int").alias("next"),
            merges.cast(MERGES).alias("merges"),
            F.array_append(acc["ids"], F.when(~late, own)).alias("ids"),
        )

    return _let(F.filter(acc["open"], lambda s: is_open(s) & is_near(s)), joined)


def _final_ids() -> Expr:
    """The session of each item at the end: those that became part of another have its number.

    Chunks are read from the last to the first. What is known on the way, of sessions that became part of another in a later
    chunk, matters to an earlier one only for those that were there before: these were open then, so they are few.
    """
    chunks = F.col("__folded")
    nobody = F.map_from_arrays(F.array().cast("array<int>"), F.array().cast("array<int>"))
    nothing = F.struct(F.array().cast("array<array<int>>").alias("ids"), nobody.cast(KNOWN).alias("known"))

    def before(known: Expr, merge: Expr) -> Expr:
        into = F.coalesce(known[merge["into"]], merge["into"])
        return F.map_concat(known, F.create_map(merge["gone"], into)).cast(KNOWN)

    def chunk_before(later: Expr, chunk: Expr) -> Expr:
        def renamed(known: Expr) -> Expr:
            ids = F.transform(chunk["ids"], lambda one: F.coalesce(known[one], one))
            earlier = F.map_filter(known, lambda gone, _: gone < chunk["first"])
            return F.struct(
                F.concat(F.array(ids), later["ids"]).cast("array<array<int>>").alias("ids"),
                earlier.cast(KNOWN).alias("known"),
            )

        return _let(F.aggregate(F.reverse(chunk["merges"]), later["known"], before), renamed)

    resolved = F.aggregate(F.reverse(chunks), nothing, chunk_before, lambda end: F.flatten(end["ids"]))
    as_they_are = F.flatten(F.transform(chunks, lambda chunk: chunk["ids"]))
    apart = F.forall(chunks, lambda chunk: F.size(chunk["merges"]) == 0)
    return F.when(apart, as_they_are).otherwise(resolved)


def _let(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """An expression in which a value that is worked out once occurs several times."""
    return F.get(F.transform(F.array(value), body), F.lit(0))
