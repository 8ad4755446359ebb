"""`late_drops_below` and `dead_letters_below`: how much of what was delivered came to nothing.

Law: the ratio's numerator and denominator are counted in one snapshot; a ratio equal to its limit passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.fold.fates import LATE, USED
from headrace.operators.registry import operator_for
from headrace.quality.claims import Check, Finding, at_most, nothing_to_judge
from headrace.quality.results import Number
from headrace.quality.words import counted, joined, percent, short

if TYPE_CHECKING:
    from headrace.quality.books import Books
    from headrace.quality.claims import Figures


def late_drops_below(books: Books, limit: float) -> Check:
    """The check of a node's late records against `limit`, a ratio of the records delivered."""
    worst = max(books.accounts, key=lambda account: account.fates[LATE], default=None)
    where = f", most of them ({worst.fates[LATE]:,}) in {worst.name}" if worst and worst.fates[LATE] else ""
    name = books.node.required_name
    longer = operator_for(books.node).lateness[0] or "grace"
    advice = f"{where}; find out what delays them, give {name} a longer {longer}, or raise late_ratio_max"
    late = Share(books.total(LATE), books.delivered, ("late", "late"))
    return below("late_drops_below", late, limit, advice)


def no_unmatched_above(books: Books, limit: float) -> Check:
    """The check of the records that find no partner against `limit`, a ratio of those that ask for one."""
    unmatched = operator_for(books.node).unmatched
    assert unmatched is not None
    alone = reduce(and_, (F.col(quote(name)).isNull() for name in unmatched.columns), F.lit(True))
    counts = books.results.agg(F.count(F.lit(1)).alias("rows"), F.count_if(alone).alias("alone")).first()
    assert counts is not None
    asked, without = counts["rows"], counts["alone"]
    if unmatched.asking:
        asked = sum(account.fates[USED] for account in books.accounts if account.topic in unmatched.asking)
        without = asked - counts["rows"]
    advice = unmatched.advice.format(name=books.node.required_name)
    advice = f"; find out {advice}, or raise unmatched_ratio_max"
    share = Share(without, asked, unmatched.words, unmatched.of)
    return below("no_unmatched_above", share, limit, advice)


def dead_letters_below(dead_letters: int, records: int, reasons: Mapping[str, int], limit: float) -> Check:
    """The check of a log's dead letters against `limit`, a ratio of the records delivered.

    In: reasons  the commonest, most frequent first
    """
    words = [f"{short(reason)!r} ({number:,})" for reason, number in reasons.items()]
    common = f", most often {joined(words, at_most=2)}" if words else ""
    advice = f"{common}; mend their producer or the topic's schema, or raise dead_letter_ratio_max"
    dead = Share(dead_letters, records, ("a dead letter", "dead letters"))
    return below("dead_letters_below", dead, limit, advice)


@dataclass(frozen=True)
class Share:
    """So many of some things are of a kind.

    number  that are of the kind; delivered: of the things
    kind    the words for one of that kind, and for several
    of      the words for one of the things, and for several
    """

    number: int
    delivered: int
    kind: tuple[str, str]
    of: tuple[str, str] = ("record delivered", "records delivered")


def below(name: str, share: Share, limit: float, advice: str) -> Check:
    """A check that no more than `limit` of some things are of a kind. In: advice  how the sentence of a failure goes on."""
    number, delivered, kind, of = share.number, share.delivered, share.kind, share.of
    if not delivered:
        return nothing_to_judge(name, f"No {of[0]} yet: nothing to judge.")
    ratio = number / delivered
    judged: Figures = {"records": number, "delivered": delivered, "ratio": ratio}
    facts: dict[str, Number] = {**judged, "limit": limit}
    are = f"is {kind[0]}" if number == 1 else f"are {kind[1]}"
    said = f"{number:,} of {counted(delivered, *of)} {are}, {percent(ratio)}"

    def explain(passed: bool) -> Finding:
        if passed:
            return Finding(f"{said}, and up to {percent(limit)} may be.", facts)
        return Finding(f"{said} where {percent(limit)} may be{advice}.", facts)

    return Check(name, at_most([judged], "ratio", limit), explain)
