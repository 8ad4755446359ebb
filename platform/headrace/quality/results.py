"""What a check says: the claim, whether it holds, and one sentence for whoever has to act on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ERROR, WARN = "error", "warn"

LOG_CHECKS: Mapping[str, str] = {
    "no_duplicate_offset": "Every offset that Kafka delivered stands in the log exactly once.",
    "dead_letters_below": "Of the records delivered, few could not be decoded or dated (ratio).",
}
NODE_CHECKS: Mapping[str, str] = {
    "every_offset_accounted_for": (
        "Per partition, records delivered = used + open + late + replay + filtered + tombstone + dead letter, "
        "and what the ledger calls used stands in the results."
    ),
    "windows_are_final": "The results hold one row per group and window: nothing was emitted twice.",
    "late_drops_below": "Of the records delivered, few came after every window of theirs had closed (ratio).",
    "backfill_equals_stream": "Each day, recomputed from the log, equals row for row what the stream wrote.",
}
SEVERITIES: Mapping[str, str] = {"dead_letters_below": WARN, "late_drops_below": WARN}


@dataclass(frozen=True)
class Thresholds:
    """How much is too much; ratios of the records delivered, from 0 to 1."""

    late_ratio_max: float = 0.05
    dead_letter_ratio_max: float = 0.01


@dataclass(frozen=True)
class CheckResult:
    """One claim about one log or node, judged.

    severity  "error", or "warn" where the tables are right but someone should look
    sentence  what is wrong and what to do, or what was verified, with the numbers
    metadata  the numbers by name
    report    path of the page that shows this result with everything it rests on; None if none was written
    """

    name: str
    passed: bool
    severity: str
    sentence: str
    metadata: Mapping[str, int | float | str] = field(default_factory=dict)
    report: str | None = None
