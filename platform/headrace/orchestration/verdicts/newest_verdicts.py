"""The newest verdict of checks, as Dagster keeps them. Nothing else asks Dagster's storage for verdicts.

Dagster documents no interface for this question. `DagsterInstance.get_latest_asset_check_evaluation_record` answers it for
one check, and the storage below it for many in one query; this asks the storage. It reads records by
Dagster's documented classes alone. Their status is an enum of Dagster's inner modules, and adds nothing to the evaluation.

A run that will judge a check notes so when it begins. Its verdict takes the place of that note. So a verdict that somebody
else reports in between is newer than the note, and hides the verdict of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster import AssetCheckEvaluation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import AssetCheckKey, DagsterInstance


@dataclass(frozen=True)
class Verdict:
    """The newest word on a check.

    evaluation  None: a run has only noted that it will judge the check
    run_id      of the run that judges or has judged it; empty: it was reported by no run
    noted_at    when that was first noted, in seconds since 1970
    """

    evaluation: AssetCheckEvaluation | None
    run_id: str
    noted_at: float

    @property
    def passed(self) -> bool | None:
        """Whether the check holds; None: it was not judged."""
        return None if self.evaluation is None else self.evaluation.passed


def newest_verdicts(
    instance: DagsterInstance, checks: Sequence[AssetCheckKey]
) -> dict[AssetCheckKey, Verdict]:
    """The newest verdict of each check; one that was never run or reported is missing."""
    if not checks:
        return {}
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    return {
        key: Verdict(_judged(record.evaluation), record.run_id, record.create_timestamp)
        for key, record in found.items()
    }


def _judged(evaluation: object) -> AssetCheckEvaluation | None:
    """The evaluation of a record; of a check that is only planned it holds an object of another class."""
    return evaluation if isinstance(evaluation, AssetCheckEvaluation) else None


def is_under_way(instance: DagsterInstance, verdict: Verdict) -> bool:
    """Whether a run judges the check now, or is about to. One that ended without a verdict never will."""
    if verdict.evaluation is not None:
        return False
    run = instance.get_run_by_id(verdict.run_id)
    return run is not None and not run.is_finished
