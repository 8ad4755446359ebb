"""`join_equals_recomputation` and `no_orphans_above`: what a join promises, and what its sides owe each other.

Law: both are judged on one micro-batch of the node: the sides that it holds, and the result that it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description import Join, quote
from headrace.quality.claims import Check, Finding, at_most, nothing_to_judge
from headrace.quality.judgements.join_sides import JoinSides
from headrace.quality.judgements.ratios import Share, below
from headrace.quality.words import counted, group_text, joined, short
from headrace.spark.rows.comparable import comparable_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.quality.books import Books

SHOWN = 3
# Columns beside the user's; as structs, for null is a key, too.
KEY, JOINED, STORED = ("__key", "__joined", "__stored")
PARTS = 1_000_000  # of the left keys, by hash: the finest sample


def join_equals_recomputation(books: Books, sample: float) -> Check:
    """The check of the result against the join of the sides held beside it.

    In: sample  the share of the left keys to compare; which ones is a function of the key
    """
    name, node = "join_equals_recomputation", books.node
    assert isinstance(node, Join)
    if not books.progress.batch:
        return nothing_to_judge(name, "No record has been read yet: there is nothing to compare.")
    key = [F.col(quote(column)) for column in node.key]
    chosen = F.pmod(F.xxhash64(*key), F.lit(PARTS)) < int(sample * PARTS)
    assert books.frames.state is not None
    sides = JoinSides.in_state(books.frames.state, node)
    both = {JOINED: sides.rejoined(), STORED: books.results}
    joined_rows, stored = (_as_structs(rows.where(chosen), node, side) for side, rows in both.items())
    how = "full_outer" if sides.are_whole else "left_outer"
    compared = joined_rows.join(stored, KEY, how)
    differs = ~F.col(JOINED).eqNullSafe(F.col(STORED))
    counts = compared.agg(F.count(F.lit(1)).alias("keys"), F.count_if(differs).alias("differing")).first()
    assert counts is not None
    keys, differing = counts["keys"], counts["differing"]
    numbers = {"keys": keys, "differing": differing, "sample": sample}
    what = f"{counted(keys, 'row')} of {node.required_name}"

    def explain(equal: bool) -> Finding:
        if equal:
            words = f"{'All' if sample == 1 else 'A sample of'} {what} equal the join of the latest rows of both sides."
            return Finding(words, numbers)
        first = compared.where(differs).orderBy(KEY).limit(SHOWN)
        shown = [_difference(r.asDict(recursive=True), node) for r in first.collect()]
        return Finding(
            f"{differing:,} of {what} {'differs' if differing == 1 else 'differ'} from the join of its sides, "
            f"first {joined(shown)}; backfill {node.required_name} to put the log's own rows in their place.",
            numbers,
        )

    return Check(name, at_most([numbers], "differing", 0), explain)


def _as_structs(rows: DataFrame, node: Join, name: str) -> DataFrame:
    """The node's identity as KEY, and its columns as one struct that can be compared."""
    row = F.struct(*(F.col(quote(column)) for column in node.columns))
    whole = comparable_rows(rows.select(row.alias(name)))
    key = F.struct(*(F.col(name)[column].alias(column) for column in node.key))
    return whole.select(key.alias(KEY), name)


def no_orphans_above(books: Books, limit: float) -> Check:
    """The check of left rows without the right row that they name, against `limit`, a ratio of those that name one."""
    name, node = "no_orphans_above", books.node
    assert isinstance(node, Join)
    if not books.progress.batch:
        return nothing_to_judge(name, "No record has been read yet: nothing can be dangling.")
    assert books.frames.state is not None
    referring = JoinSides.in_state(books.frames.state, node).orphans()
    is_orphan = F.col("__orphan")
    counts = referring.agg(F.count(F.lit(1)).alias("rows"), F.count_if(is_orphan).alias("orphans")).first()
    assert counts is not None
    kind = ("dangling", "dangling")
    advice = "; send the right rows that are missing, or raise orphan_ratio_max"
    if counts["orphans"]:
        advice = f", most of them {_commonest(referring.where(is_orphan), node)}{advice}"
    orphans = Share(counts["orphans"], counts["rows"], kind, ("reference", "references"))
    return below(name, orphans, limit, advice)


def _commonest(orphans: DataFrame, node: Join) -> str:
    on = [F.col(quote(column)) for column in node.on]
    counts = orphans.groupBy(*on).agg(F.count(F.lit(1)).alias("__rows"))
    first = counts.orderBy(F.col("__rows").desc(), *on).limit(SHOWN).collect()
    return joined([f"for {group_text(r.asDict(), node.on)} ({r['__rows']:,})" for r in first])


def _difference(row: dict[str, Any], node: Join) -> str:
    """Which key differs, and in which columns."""
    key = group_text(row[KEY], node.key)
    ours, theirs = row[JOINED], row[STORED]
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return f"{key} ({'missing' if theirs is None else 'too many'})"
    pairs = [
        f"{column}: {short(theirs[column])} for {short(ours[column])}"
        for column in node.columns
        if ours[column] != theirs[column]
    ]
    return f"{key} ({joined(pairs)})"
