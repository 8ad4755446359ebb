"""Find the records for which a step raises, by halving: first among log commits, then within each that fails.

An increment takes at most `TRIES_MAX` jobs. If they do not suffice, it ends before the log commit in which they ran out.
Each log commit may take the same number of them, so whether a node stops for one does not depend on what else there is.

Law: each record that is found has raised when its steps were evaluated for it alone (see `unusable`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.engine.slices.feeds import NodeRows
from headrace.engine.steps.halving import OutOfTriesError, Tries, odd_ones
from headrace.engine.steps.step_trials import Trials
from headrace.engine.steps.unusable import Place, Unusable, words_of
from headrace.errors import TerminalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Node

TRIES_MAX = 200
COMMIT_TRIES_MAX = (
    170  # of these for the records of one log commit; the others lead to it, among a billion of them
)


class UnusableRecordsError(TerminalError):
    """A log commit holds more records for which steps raise than can be found, or steps raise for several at once."""


@dataclass(frozen=True)
class Apart:
    """An increment without the records that its node cannot use.

    upto_ms   for each topic, the commit time through which it goes
    unusable  the records to be set apart; found: those among them that were not known before
    """

    upto_ms: Mapping[str, int]
    unusable: Sequence[Unusable] = ()
    added: Sequence[Unusable] = ()


def set_apart(
    rows: NodeRows,
    logs: Mapping[str, DataFrame],
    done_ms: Mapping[str, int],
    upto_ms: Mapping[str, int],
    known: Sequence[Unusable],
) -> Apart:
    """Find the records of an increment for which steps raise.

    In:     logs     rows after `done_ms` and through `upto_ms`
            known    records that need not be looked for
    Raises: UnusableRecordsError when the trials do not suffice for the first log commit; what else a job fails with
    """
    trials = Trials(rows, logs, known, Tries(TRIES_MAX))
    search = Search(rows.node, trials)
    try:
        odd = odd_ones(len(trials.commits) - 1, search.commits_fail, search.records_of)
    finally:
        trials.close()
    found = [each for several in odd.items.values() for each in several]
    if odd.known == len(trials.commits) - 1:
        return Apart(upto_ms, [*known, *found], found)
    if not odd.known:
        raise _too_many(rows.node, trials.place(0), search.last)
    last_ms = trials.place(trials.commits[odd.known])["ingested_ms"] - 1
    upto_ms = {topic: max(done_ms.get(topic, 0), min(ms, last_ms)) for topic, ms in upto_ms.items()}
    return Apart(upto_ms, [*known, *found], found)


def still_raising(rows: NodeRows, logs: Mapping[str, DataFrame], known: Iterable[Unusable]) -> list[Unusable]:
    """Those of some records for which a step does raise, each evaluated alone."""
    trials = Trials(rows, logs, (), Tries(sys.maxsize))
    try:
        return [each for each in known if trials.raises_alone(each)]
    finally:
        trials.close()


@dataclass
class Search:
    """Looks for the records of an increment for which steps raise.

    last  what was found in the log commit that was searched last
    """

    node: Node
    trials: Trials
    last: Sequence[Unusable] = field(default_factory=tuple)

    def commits_fail(self, first: int, end: int) -> bool:
        """Whether steps raise for records of some log commits."""
        return self.trials.fails(self.trials.commits[first], self.trials.commits[end])

    def records_of(self, commit: int) -> Sequence[Unusable]:
        """The records of a log commit for which steps raise.

        Raises: OutOfTriesError
        """
        start, end = self.trials.commits[commit : commit + 2]
        trials = self.trials.limited(COMMIT_TRIES_MAX)

        def unusable_at(at: int) -> Sequence[Unusable]:
            found = trials.unusable(start + at)
            if not found:
                raise _not_alone(self.node, trials.place(start + at))
            return found

        odd = odd_ones(
            end - start,
            lambda first, last: trials.fails(start + first, start + last),
            unusable_at,
            known_odd=True,
        )
        self.last = [each for several in odd.items.values() for each in several]
        if odd.known < end - start:
            raise OutOfTriesError
        return self.last


def _too_many(node: Node, place: Place, unusable: Sequence[Unusable]) -> UnusableRecordsError:
    one = unusable[0] if unusable else None
    which = words_of(place if one is None else one.place)
    return UnusableRecordsError(
        f"Node '{node.name}': its steps raise for more records of one log commit than {COMMIT_TRIES_MAX} jobs can find.",
        detail=f"One of them is {which}" + ("." if one is None else f": {one.reason}."),
        hint="Mend the step and run `headrace apply`; or filter such records before the step.",
    )


def _not_alone(node: Node, place: Place) -> UnusableRecordsError:
    return UnusableRecordsError(
        f"Node '{node.name}': its steps raise for records together, but not for {words_of(place)} alone.",
        hint="A step has to treat each record by itself: look for a transform that does not.",
    )
