"""`every_offset_accounted_for`: double-entry book-keeping of records.

Law: per partition, records in the log = the sum over the ledger's fates; and the records that the ledger
calls used = those of which the result table is made. The ledger counts in the state table what is open, so a
row lost from the log, from the state or from the results leaves the books unbalanced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.fold.fates import FATES, USED
from headrace.quality.claims import Check, Finding, nothing_to_judge, pairs_equal
from headrace.quality.figures.diagnosis import Diagnosis, OpenDifference, diagnose
from headrace.quality.words import UNDOES, amount, counted, joined, moment, repair_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from headrace.quality.books import Account, Books
    from headrace.quality.claims import Figures

NAME = "every_offset_accounted_for"
# One of them, and several.
FATE_WORDS = {fate: (fate, fate) for fate in FATES} | {
    "duplicate": ("duplicate", "duplicates"),
    "replay": ("replay", "replays"),
    "tombstone": ("tombstone", "tombstones"),
    "dead_letter": ("dead letter", "dead letters"),
}


def every_offset_accounted_for(spark: SparkSession, lake: Lake, books: Books) -> Check:
    """The check of a node's books."""
    if not books.accounts and not books.in_results:
        return nothing_to_judge(NAME, "No record has been delivered yet: nothing to account for.")
    claim = pairs_equal(_accounts(books), "entered", "accounted")
    return Check(
        NAME, claim, lambda balanced: Finding(_sentence(spark, lake, books, balanced), _numbers(books))
    )


def _accounts(books: Books) -> list[Figures]:
    """The trial balance: one row per partition, and one for the results."""
    rows = [(f"{a.name}: delivered = sum of fates", a.delivered, a.accounted) for a in books.accounts]
    if books.in_results is not None:
        rows.append((f"{books.node.required_name}: used = in results", books.total(USED), books.in_results))
    return [{"account": name, "entered": entered, "accounted": known} for name, entered, known in rows]


def _numbers(books: Books) -> dict[str, int | float | str]:
    fates = {fate: books.total(fate) for fate in FATES}
    accounted = sum(fates.values())
    return {
        "delivered": books.delivered,
        "accounted": accounted,
        "unaccounted": books.delivered - accounted,
        **({} if books.in_results is None else {"in_results": books.in_results}),
        "partitions": len(books.accounts),
        **fates,
    }


def _sentence(spark: SparkSession, lake: Lake, books: Books, balanced: bool) -> str:
    if balanced:
        fates = [counted(books.total(fate), *FATE_WORDS[fate]) for fate in FATES if books.total(fate)]
        partitions = counted(len(books.accounts), "partition")
        made = "" if books.in_results is None else ", and the results are made of exactly those used"
        return (
            f"All {counted(books.delivered, 'record')} delivered in {partitions} are accounted for "
            f"({joined(fates, at_most=len(FATES))}){made}."
        )
    unbalanced = [account for account in books.accounts if account.delivered != account.accounted]
    if unbalanced:
        return _lost_or_added(unbalanced)
    return _misplaced(diagnose(spark, lake, books), books)


def _lost_or_added(unbalanced: list[Account]) -> str:
    words = [
        f"{a.name} delivered {counted(a.delivered, 'record')} and the ledger has {a.accounted:,}, "
        f"{amount(a.accounted - a.delivered)}"
        for a in unbalanced
    ]
    topics = sorted({a.topic for a in unbalanced})
    gone = any(a.delivered < a.accounted for a in unbalanced)
    cause = "rows are gone from" if gone else "rows were added behind the node's back to"
    return f"{joined(words, at_most=3)}; {cause} the log of {joined(topics)}: {repair_of(topics)}, which {UNDOES}."


def _misplaced(diagnosis: Diagnosis, books: Books) -> str:
    if diagnosis.open:
        return (
            f"{joined([_open_words(found, books) for found in diagnosis.open], at_most=3)}; "
            f"{repair_of(sorted({found.account.topic for found in diagnosis.open}))}, which {UNDOES}."
        )
    used, held = books.total(USED), books.in_results or 0
    partitions = sorted({partition for window in diagnosis.windows for partition in window.partitions})
    of = f" of {joined(partitions, at_most=3)}" if partitions else ""
    missing = "missing from" if held < used else "too many in"
    records = counted(abs(held - used), "record")
    words = (
        f"{records}{of} {'is' if abs(held - used) == 1 else 'are'} {missing} the results, which hold {held:,}"
    )
    words += f" where the ledger of {books.node.required_name} has {used:,} used"
    if not diagnosis.windows:
        cure = "rebuild the node from the log under a new name" if books.node.has_windows else "backfill it"
        return f"{words}; {cure}."
    first, others = diagnosis.windows[0], diagnosis.windows_differing - 1
    more = f" (and {counted(others, 'window')} more)" if others else ""
    return (
        f"{words}: the window {first.group} from {moment(first.start_ms)} stands for {first.in_results:,} of "
        f"its {counted(first.in_log, 'record')}{more}; backfill {joined(diagnosis.days)} to put it right."
    )


def _open_words(open_difference: OpenDifference, books: Books) -> str:
    difference = open_difference.in_state - open_difference.in_log
    missing = "missing from" if difference < 0 else "too many in"
    return (
        f"{counted(abs(difference), 'record')} of open windows of {open_difference.account.name} "
        f"{'is' if abs(difference) == 1 else 'are'} {missing} the state of {books.node.required_name}, "
        f"which holds {open_difference.in_state:,} where the log has {open_difference.in_log:,}"
    )
