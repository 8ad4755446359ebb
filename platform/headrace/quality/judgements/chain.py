"""`no_log_commit_missing`: the commits of a log form a chain, and each holds the records that its commit row counted.

The law, and how a chain is followed, stand in `headrace.log.history.chain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.history.chain import Chain, Gap, read_chain
from headrace.quality.claims import Check, Finding, nothing_to_judge, pairs_equal
from headrace.quality.words import UNDOES, counted, joined, moment, repair_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.quality.claims import Figures

NAME = "no_log_commit_missing"
SHOWN = 3


def no_log_commit_missing(log: DataFrame, topic: str) -> Check:
    """The check of one log."""
    chain = read_chain(log, at_most=SHOWN)
    if not chain.commits:
        words = f"The log of {topic} has no commit with a commit row yet: nothing can be missing."
        return nothing_to_judge(NAME, words)

    def explain(whole: bool) -> Finding:
        numbers = {
            "commits": chain.commits,
            "gaps": chain.broken,
            "commits_with_other_records": len(chain.short),
        }
        if whole:
            words = f"The {counted(chain.commits, 'commit')} of the log of {topic} follow one another without a gap"
            return Finding(f"{words}, each with all of its records.", numbers)
        found = [_in_words(gap) for gap in chain.gaps]
        found += [
            f"the commit of {moment(at_ms)} holds {held:,} of its {counted(told, 'record')}"
            for at_ms, held, told in chain.short
        ]
        words = f"The log of {topic} has lost what it held: {joined(found, at_most=SHOWN)}"
        return Finding(f"{words}; {_cure(chain, topic)}", numbers)

    return Check(NAME, pairs_equal(_pairs(chain), "wanted", "found"), explain)


def _cure(chain: Chain, topic: str) -> str:
    back = "puts back what files or Kafka still have, and computes the tables of its nodes again"
    return f"{repair_of([topic])}, which {back if chain.gaps else UNDOES}."


def _in_words(gap: Gap) -> str:
    what = joined(gap.stretches, at_most=SHOWN) if gap.offsets else "no record"
    return f"{counted(gap.commits, 'commit')} after {moment(gap.after_ms)} ({what})"


def _pairs(chain: Chain) -> list[Figures]:
    """Numbers that have to be equal."""
    rows = [
        ("commits: numbered = found", chain.numbered, chain.commits),
        ("records: counted at the commits = found", chain.counted, chain.records),
        ("commits that follow the one before", chain.commits, chain.commits - chain.broken),
    ]
    return [{"link": link, "wanted": wanted, "found": found} for link, wanted, found in rows]
