"""The words of a check: the claim, whether it holds, and one sentence for whoever has to act on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.errors import DescriptionError
from headrace.operators.claims import LATE_FOR_ANY, OF_OPERATORS
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from headrace.description import Node, Topic

RATIOS = tuple(f"{kind}_ratio_max" for kind in ("late", "dead_letter", "replay", "orphan", "unmatched"))
ERROR, WARN = "error", "warn"
Number = int | float | str

LOG_CHECKS: Mapping[str, str] = {
    "no_log_commit_missing": "The log's commits form a chain without a gap, each with all of its records.",
    "no_duplicate_offset": "Every offset that Kafka delivered is in the log exactly once.",
    "dead_letters_below": "Few of the records delivered could not be decoded or dated.",
}
# Of logs whose topic has a replay guard, beside the others.
GUARD_CHECKS: Mapping[str, str] = {
    "no_duplicate_replay": "No refused record reached a result: each source position was taken once.",
    "replays_below": "Few of the records delivered had been sent before.",
    "guard_is_advancing": "The guard refuses only records that were taken before, and no root topic was created again.",
}
CONSERVATION = {
    "every_offset_accounted_for": (
        "In each partition, the records delivered are those used, open, late, replayed, filtered, tombstones "
        "and dead letters; and those used are the ones in the results."
    ),
}
PARITY = {
    "backfill_equals_stream": "Each day, recomputed from the log, equals row for row what the stream wrote.",
}
OF_NODES = (CONSERVATION, *OF_OPERATORS, PARITY)
CLAIMS = {name: claim for some in (LOG_CHECKS, GUARD_CHECKS, *OF_NODES) for name, claim in some.items()}
SEVERITIES: Mapping[str, str] = {
    "dead_letters_below": WARN,
    "late_drops_below": WARN,
    "no_orphans_above": WARN,
    "no_unmatched_above": WARN,
    "replays_below": WARN,
}


def log_checks(topic: Topic) -> Mapping[str, str]:
    """The claims about a topic's log by name, in the order in which they are judged."""
    return LOG_CHECKS if topic.replay_guard is None else {**LOG_CHECKS, **GUARD_CHECKS}


def node_checks(node: Node) -> Mapping[str, str]:
    """The claims about a node's results by name, in the order in which they are judged."""
    operator = operator_for(node)
    claims = CONSERVATION | dict(operator.checks)
    if not operator.can_be_late:
        claims.pop("late_drops_below", None)
    elif "late_drops_below" not in claims:
        claims["late_drops_below"] = LATE_FOR_ANY
    if operator.unmatched is not None:
        claims["no_unmatched_above"] = operator.unmatched.claim
    return claims | PARITY | {each.name: each.claim for each in node.expectations}


@dataclass(frozen=True)
class Thresholds:
    """The most that a log or a node may have before a check fails: ratios of the records delivered, and records in a row.

    orphan_ratio_max   of the left rows that refer to a right row
    unmatched_ratio_max  of the rows of a join of streams, or of the records of a lookup
    join_sample_ratio  the share of the left keys that `join_equals_recomputation` compares, the same ones each time
    severities         by check: `error`, or `warn` where the tables are right but someone should look; others as they are
    blocking           checks that keep assets downstream from being materialized in the same run, as in a backfill of both

    Raises: DescriptionError for a ratio that is none, a number below 1, a check or severity that there is not.
    """

    late_ratio_max: float = 0.05
    dead_letter_ratio_max: float = 0.01
    replay_ratio_max: float = 0.05
    refused_in_a_row_max: int = 100
    orphan_ratio_max: float = 0.05
    unmatched_ratio_max: float = 0.05
    join_sample_ratio: float = 1.0
    severities: Mapping[str, str] = field(default_factory=dict)
    blocking: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in RATIOS:
            if not 0 <= getattr(self, name) <= 1:
                raise DescriptionError(
                    f"thresholds: {name}={getattr(self, name)} is no ratio from 0 to 1.", hint="5 % is 0.05."
                )
        if self.refused_in_a_row_max < 1:
            raise DescriptionError(
                f"thresholds: refused_in_a_row_max={self.refused_in_a_row_max} is no number of records."
            )
        for check in (*self.severities, *self.blocking):
            if check not in CLAIMS and not (check in self.blocking and check.startswith("expect_")):
                raise DescriptionError(
                    f"thresholds: there is no check {check!r}.",
                    hint=f"There are: {', '.join(sorted(CLAIMS))}.",
                )
        for check, severity in self.severities.items():
            if severity not in (ERROR, WARN):
                raise DescriptionError(
                    f"thresholds: severity {severity!r} of {check} is neither 'error' nor 'warn'."
                )

    def severity(self, check: str) -> str:
        """How bad it is when this check fails."""
        return self.severities.get(check, SEVERITIES.get(check, ERROR))


DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class CheckResult:
    """One claim about one log or node, judged.

    severity  "error", or "warn" where the tables are right but someone should look
    sentence  what is wrong and what to do, or what was verified, with the numbers
    metadata  the numbers by name
    report    path of the page that shows this result and what it rests on
    """

    name: str
    passed: bool
    severity: str
    sentence: str
    metadata: Mapping[str, Number] = field(default_factory=dict)
    report: str | None = None
