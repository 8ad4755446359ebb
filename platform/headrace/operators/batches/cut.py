"""Cut each group's records into batches: a fold inside Spark, with no Python for a group or a record.

Law: cutting an increment with the batch that was open before it equals cutting everything at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.batches import BYTES, COUNT, DRAIN, WAIT
from headrace.operators.batches.place import counted_by, open_state, place_of, source_of
from headrace.operators.batches.stretches import commits_of
from headrace.operators.folds import found_in
from headrace.operators.sequence import in_order
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import Batches

MEASURES = ("__size_bytes", "__event_ms")
UPTO = "__upto_ms"


class Cutter:
    """Cuts the records of one node. Its columns are made once: to make one anew costs a call or more into the JVM."""

    def __init__(self, node: Batches, *, collect: bool = True) -> None:
        """Needs a running Spark.

        In: collect  whether to gather the events
        """
        self._node, self._by = node, [F.col(quote(name)) for name in node.by]
        self._gathered = F.collect_list(_record(node, collect)).alias("__new")
        kinds = open_state(node)
        self._held = [F.col(name).alias(f"__held{name}") for name in kinds]
        self._nothing = [F.lit(None).cast(kind).alias(f"__held{name}") for name, kind in kinds.items()]
        self._batches, self._measures, self._shown = _batches(node), _measures(node), _shown(node, collect)
        self._undrained = _starts(node, ()), *_closing(node, ())
        self._ordered: Expr | None = None

    def cut(
        self, kept: DataFrame, held: DataFrame | None, *, drains: Sequence[int], upto_ms: int
    ) -> DataFrame:
        """The batches that these records belong to, and those held that close although no record came.

        In:     kept    records of whole log commits through `upto_ms`, as `decide` marks them; all after what is held
                held    the batches open before: `by` and `open_state`, one row per group; None: none
                drains  commit times of the drains among these commits, rising; each stands behind the records of its time
        Out:    `by`, `open_state` (once closed, `__commits` are those of records before these), `__held` (it was open
                before), `__known` (some batch of its group was), `__touched` (it has some of these records), `__last` (of
                its group), `__closed_ms` and `__closed_by` (null: open), `__events` (of these records, where the batch
                closed). One row per batch.
        """
        groups = kept.groupBy(*self._by).agg(self._gathered)
        if held is None:
            joined = groups.select("*", *self._nothing)
        else:
            joined = groups.join(held.select(*self._by, *self._held), list(self._node.by), "full_outer")
        if self._ordered is None:
            empty = F.array().cast(groups.schema["__new"].dataType)
            self._ordered = F.coalesce(in_order(groups, "__new", place_of(self._node)), empty)
        closing = (_starts(self._node, drains), *_closing(self._node, drains)) if drains else self._undrained
        starts, times, reasons = closing
        started = joined.withColumn("__new", self._ordered).withColumn("__starts", starts)
        batches = started.select(*self._by, F.inline(self._batches), varying(upto_ms).alias(UPTO))
        measured = batches.withColumns(self._measures).withColumns(times)
        return measured.withColumns(reasons).select(*self._by, *self._shown)


def event_of(node: Batches) -> Expr:
    """What a batch keeps of a record."""
    return F.struct(*(F.col(quote(name)).alias(name) for name in node.collect))


def _record(node: Batches, collect: bool) -> Expr:
    event = [event_of(node).alias("__event")] if collect else []
    return F.struct(*place_of(node), *MEASURES, *event)


def _starts(node: Batches, drains: Sequence[int]) -> Expr:
    """The places (from 1) in `__new` at which a batch begins.

    On the way: how full the open batch is (`n` 0: none is open), when it was opened, the next place.
    """
    held = F.col("__held__records").isNotNull()
    begun = {
        "n": F.when(held, F.col("__held__records")).otherwise(0).cast("long"),
        "b": F.when(held, F.col("__held__bytes")).otherwise(0).cast("long"),
        "opened": F.when(held, F.col("__held__opened_ms")).otherwise(0).cast("long"),
        "next": F.lit(1).cast("int"),
    }
    return found_in(F.col("__new"), begun, lambda acc, record: _step(acc, record, node, drains), "int")


def _step(
    acc: Expr, record: Expr, node: Batches, drains: Sequence[int]
) -> tuple[Mapping[str, Expr], Expr, Expr]:
    """Put one record into the open batch, or into a new one."""
    at, size = record["__ingested_ms"], record["__size_bytes"]
    fresh = acc["n"] == 0
    if node.max_wait_ms is not None:
        fresh = fresh | (at >= acc["opened"] + node.max_wait_ms)
    if node.max_bytes is not None:
        fresh = fresh | (acc["b"] + size > node.max_bytes)
    if drains:
        times = F.array(*(F.lit(ms).cast("long") for ms in drains))
        fresh = fresh | F.exists(times, lambda ms: (ms >= acc["opened"]) & (ms < at))
    n = F.when(fresh, F.lit(1).cast("long")).otherwise(acc["n"] + 1)
    b = F.when(fresh, size).otherwise(acc["b"] + size)
    after = {
        "n": F.when(_full(n, b, node), F.lit(0).cast("long")).otherwise(n),
        "b": b.cast("long"),
        "opened": F.when(fresh, at).otherwise(acc["opened"]),
        "next": acc["next"] + 1,
    }
    return after, fresh, acc["next"]


def _full(n: Expr, b: Expr, node: Batches) -> Expr:
    full = F.lit(False)
    if node.max_records is not None:
        full = full | (n >= node.max_records)
    if node.max_bytes is not None:
        full = full | (b >= node.max_bytes)
    return full


def _batches(node: Batches) -> Expr:
    """One struct for each batch, with its own stretch of `__new`: no row carries more than its own records."""
    new, held = F.col("__new"), F.col("__held__records").isNotNull()
    from_held = F.when(held, F.array(F.lit(1))).otherwise(F.array().cast("array<int>"))
    starts = F.concat(from_held, F.col("__starts"))

    def batch(start: Expr, number: Expr) -> Expr:
        following = F.get(starts, number + 1)
        continued = held & (number == 0)
        own = F.slice(new, start, F.coalesce(following, F.size(new) + 1) - start)
        return F.struct(
            own.alias("__own"),
            continued.alias("__held"),
            held.alias("__known"),
            following.isNull().alias("__last"),
            F.get(new, following - 1)["__ingested_ms"].alias("__next_ms"),
            *(F.when(continued, F.col(f"__held{name}")).alias(f"__held{name}") for name in open_state(node)),
        )

    return F.transform(starts, batch)


def _measures(node: Batches) -> dict[str, Expr]:
    """What there is of each batch."""
    own, first = F.col("__own"), F.get(F.col("__own"), F.lit(0))
    zero = F.lit(0).cast("long")
    size = F.aggregate(own, zero, lambda total, record: total + record["__size_bytes"])
    latest = F.array_max(F.transform(own, lambda record: record["__event_ms"]))
    return {
        "__touched": F.size(own) > 0,
        "__opened_ms": F.coalesce("__held__opened_ms", first["__ingested_ms"]),
        **{name: F.coalesce(f"__held{name}", first[name]) for name in source_of(node)},
        "__records": F.coalesce("__held__records", zero) + F.size(own),
        "__bytes": F.coalesce("__held__bytes", zero) + size,
        "__event_ms": F.greatest(F.col("__held__event_ms"), latest),
    }


def _closing(node: Batches, drains: Sequence[int]) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """When a batch would close at the latest; then by what it closed, and when."""
    own, following, opened = F.col("__own"), F.col("__next_ms"), F.col("__opened_ms")
    drained = F.lit(None).cast("long")
    if drains:
        times = F.array(*(F.lit(ms).cast("long") for ms in drains))
        drained = F.array_min(F.filter(times, lambda ms: ms >= opened))
    deadline = F.lit(None).cast("long") if node.max_wait_ms is None else opened + node.max_wait_ms
    full = F.get(own, F.size(own) - 1)["__ingested_ms"]
    # What would close a batch before its deadline: the next record of its group that opens another, or a drain.
    earliest = F.least(F.col("__next_ms"), F.col("__drained_ms"), F.col(UPTO))
    # A record comes before the drain of its own time.
    undrained = F.least(F.col("__next_ms") - 1, F.col(UPTO))
    reasons = [
        (COUNT, full, F.col("__records") >= node.max_records if node.max_records else F.lit(False)),
        (BYTES, full, F.col("__bytes") >= node.max_bytes if node.max_bytes else F.lit(False)),
        (WAIT, F.col("__deadline_ms"), F.col("__deadline_ms") <= earliest),
        (DRAIN, F.col("__drained_ms"), F.col("__drained_ms") <= undrained),
        (BYTES, following, following.isNotNull()),
    ]
    by, at = F.lit(None).cast("string"), F.lit(None).cast("long")
    for reason, moment, true in reversed(reasons):
        by, at = F.when(true, F.lit(reason)).otherwise(by), F.when(true, moment).otherwise(at)
    times_of = {"__drained_ms": drained, "__deadline_ms": deadline}
    return times_of, {"__closed_by": by, "__closed_ms": at}


def _shown(node: Batches, collect: bool) -> list[Expr]:
    closed = F.col("__closed_by").isNotNull()
    own = F.transform("__own", lambda record: record["__ingested_ms"])
    commits = commits_of(F.col("__held"), F.col("__held__commits"), own)
    collected = F.transform("__own", lambda record: record["__event"]) if collect else F.lit(None)
    return [
        *(F.col(name) for name in open_state(node) if name not in ("__counts", "__commits")),
        F.when(~closed, _counts(node)).alias("__counts"),
        F.when(~closed, commits).otherwise(F.col("__held__commits")).alias("__commits"),
        *(F.col(name) for name in ("__held", "__known", "__touched", "__last", "__closed_ms", "__closed_by")),
        F.when(closed, collected).alias("__events"),
    ]


def _counts(node: Batches) -> Expr:
    """How many records of the batch each partition has."""
    names = {name: name.removeprefix("__") for name in counted_by(node)}
    one = F.transform(
        "__own",
        lambda r: F.struct(
            *(r[name].alias(short) for name, short in names.items()), F.lit(1).cast("long").alias("records")
        ),
    )
    known = F.coalesce(F.col("__held__counts"), F.array().cast(open_state(node)["__counts"]))
    parts = F.concat(known, one)
    zero = F.lit(0).cast("long")

    def partition(part: Expr) -> Expr:
        fields = [part[short].alias(short) for short in names.values()]
        return fields[0] if len(fields) == 1 else F.struct(*fields)  # distinct numbers are found sooner

    def total(of: Expr) -> Expr:
        same = F.filter(parts, lambda part: partition(part) == of)
        records = F.aggregate(same, zero, lambda so_far, part: so_far + part["records"])
        fields = [of.alias("partition")] if len(names) == 1 else [of[n].alias(n) for n in names.values()]
        return F.struct(*fields, records.alias("records"))

    return F.transform(F.array_distinct(F.transform(parts, partition)), total)
