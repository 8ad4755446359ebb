"""`batches_within_limits` and `no_batch_lost_or_repeated`: what batches promise to those who receive them.

Law: each batch keeps the limits of its description. Each record that the node kept is in one batch or in one that is open,
each batch stands once, with as many events as records; and a sink that can say what it holds has the same batches, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.durations import format_duration
from headrace.fold.fates import KEPT
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.rows import state_views
from headrace.nodes.rows.node_frames import is_settled
from headrace.nodes.rows.reader_frames import logs_and_unusable
from headrace.nodes.rows.row_frames import decided
from headrace.nodes.rows.state_frames import StateFrame
from headrace.quality.claims import Check, Finding, at_most, nothing_to_judge
from headrace.quality.words import counted, joined, moment
from headrace.sinks import ReadableSink
from headrace.writing.delivery.redeliver import delivery_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Batches
    from headrace.lake.paths import Lake
    from headrace.quality.books import Books
    from headrace.quality.claims import Figures

SHOWN = 3
NO_BATCH = "records of the log in no batch"
TWO_BATCHES = "records in more than one batch"
REPEATED = "batches that stand more than once"
UNEVEN = "batches with more or fewer events than records"


def batches_within_limits(results: DataFrame, node: Batches) -> Check:
    """The check of each batch's size and age."""
    name, table, batches = "batches_within_limits", node.required_name, results.count()
    if not batches:
        words = f"{table} holds no closed batch yet: nothing can exceed a limit."
        return nothing_to_judge(name, words)
    age_ms = F.unix_millis("closed_at") - F.unix_millis("opened_at")
    beyond = F.lit(False)
    if node.max_records is not None:
        beyond = beyond | (F.col("records") > node.max_records)
    if node.max_bytes is not None:
        beyond = beyond | ((F.col("__bytes") > node.max_bytes) & (F.col("records") > 1))
    if node.longest_wall_wait_ms:
        beyond = beyond | (age_ms > node.longest_wall_wait_ms)
    flagged = results.select(
        "batch_id", "opened_at", "records", age_ms.alias("age_ms"), beyond.alias("beyond")
    )
    judged = flagged.agg(
        F.count_if("beyond").alias("found"),
        F.max("records").alias("records"),
        F.max("age_ms").alias("age_ms"),
    ).first()
    assert judged is not None
    figures: list[Figures] = [{"trouble": "beyond a limit", "found": judged["found"]}]
    numbers = {
        "batches": batches,
        "beyond": judged["found"],
        "records_max": judged["records"],
        "age_ms_max": judged["age_ms"],
    }

    def explain(within: bool) -> Finding:
        if within:
            largest = f"the largest has {counted(judged['records'], 'record')}"
            oldest = f"the oldest was open for {format_duration(judged['age_ms'])}"
            words = f"All {counted(batches, 'batch', 'batches')} in {table} are within their limits; {largest}, {oldest}."
            return Finding(words, numbers)
        first = flagged.where("beyond").orderBy("opened_at", "batch_id").limit(SHOWN)
        rows = first.select(
            "records", "age_ms", F.unix_millis("opened_at").alias("at"), F.to_date("opened_at").alias("day")
        )
        shown = [(r["at"], r["records"], r["age_ms"], r["day"]) for r in rows.collect()]
        examples = [
            f"of {moment(at)} with {counted(records, 'record')} after {format_duration(age)}"
            for at, records, age, _ in shown
        ]
        days = sorted({day for *_, day in shown})
        many = counted(judged["found"], "batch", "batches")
        words = f"{many} of {table} {'is' if judged['found'] == 1 else 'are'} beyond a limit, first that {joined(examples)}"
        return Finding(
            f"{words}; backfill {joined(days)} to put the log's own batches in their place.", numbers
        )

    return Check(name, at_most(figures, "found", 0), explain)


def no_batch_lost_or_repeated(spark: SparkSession, lake: Lake, books: Books, node: Batches) -> Check:
    """The check of log against batches, and of batches against each sink that can say what it holds."""
    name, table = "no_batch_lost_or_repeated", node.required_name
    if not books.accounts and not books.in_results:
        return nothing_to_judge(name, "No record has been delivered yet: no batch can be lost.")
    troubles = {**_by_group(spark, lake, books, node), **_in_table(books.results)}
    for sink in node.sinks:
        if isinstance(sink, ReadableSink):
            held = sink.identities(spark, delivery_of(lake, node, sink)).groupBy("batch_id").count()
            troubles |= _in_sink(books.results, held, sink.name)
    figures: list[Figures] = [{"trouble": name, "found": found} for name, found in troubles.items()]
    batches = books.results.count()

    def explain(sound: bool) -> Finding:
        numbers = {
            "batches": batches,
            **{trouble.replace(" ", "_"): found for trouble, found in troubles.items()},
        }
        if sound:
            sinks = [sink.name for sink in node.sinks if isinstance(sink, ReadableSink)]
            also = (
                f", and {joined(sinks)} {'holds' if len(sinks) == 1 else 'hold'} each of them once"
                if sinks
                else ""
            )
            many = counted(batches, "batch", "batches")
            return Finding(
                f"Every record kept is in exactly one of {many} of {table} or in an open one{also}.", numbers
            )
        found = [f"{number:,} {trouble}" for trouble, number in troubles.items() if number]
        own = any(troubles[trouble] for trouble in (NO_BATCH, TWO_BATCHES, REPEATED, UNEVEN))
        cure = (
            f"backfill {table}, then deliver its rows again" if own else f"run `headrace redeliver {table}`"
        )
        return Finding(f"{table}: {joined(found)}; {cure}.", numbers)

    return Check(name, at_most(figures, "found", 0), explain)


def _by_group(spark: SparkSession, lake: Lake, books: Books, node: Batches) -> dict[str, int]:
    """Records of each group: those kept from the log, less those in batches and in open ones."""
    by, of = [quote(name) for name in node.by], bound(spark, node)
    opening = read_opening(lake, node)
    rows = decided(node, *logs_and_unusable(spark, lake, node, books.progress.upto_ms))
    since = (F.col("__fate") == KEPT) & (F.col("__ingested_ms") > opening.progress.frontier_ms(node))
    one = F.lit(1).cast("long")
    sides = rows.where(since).select(*by, one.alias("__surplus"))
    begun = opening.state(spark, node)
    if begun is not None:  # of batches open at a cut the records before it are counted there
        waited = state_views.waiting(of, StateFrame(begun), opening.progress.clock)
        sides = sides.unionByName(waited.select(*by, one.alias("__surplus")))
    settled = books.results.where(is_settled(node, books.progress) & ~is_settled(node, opening.progress))
    sides = sides.unionByName(settled.select(*by, (-F.col("records")).alias("__surplus")))
    if books.frames.state is not None:
        still = state_views.waiting(of, StateFrame(books.frames.state), books.progress.clock)
        sides = sides.unionByName(still.select(*by, (-one).alias("__surplus")))
    groups = sides.groupBy(*by).agg(F.sum("__surplus").alias("__too_many"))
    row = groups.agg(
        F.coalesce(F.sum(F.when(F.col("__too_many") > 0, F.col("__too_many"))), F.lit(0)).alias("lost"),
        F.coalesce(F.sum(F.when(F.col("__too_many") < 0, -F.col("__too_many"))), F.lit(0)).alias("twice"),
    ).first()
    assert row is not None
    return {NO_BATCH: row["lost"], TWO_BATCHES: row["twice"]}


def _in_table(results: DataFrame) -> dict[str, int]:
    repeated = results.groupBy("batch_id").count().where("count > 1").count()
    uneven = results.where((F.size("events") != F.col("records")) | F.col("events").isNull()).count()
    return {REPEATED: repeated, UNEVEN: uneven}


def _in_sink(results: DataFrame, identities: DataFrame, sink: str) -> dict[str, int]:
    ours = results.select("batch_id").distinct()
    return {
        f"batches missing from {sink}": ours.join(identities, "batch_id", "left_anti").count(),
        f"batches repeated in {sink}": identities.where("count > 1").count(),
    }
