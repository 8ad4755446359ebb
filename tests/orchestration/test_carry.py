"""A check's verdict outlives the materializations of a stream, and not those of a backfill."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from headrace.orchestration.events.carry import EVALUATED_AT, materialize

pytestmark = pytest.mark.dagster

LOG = dg.AssetKey("log")
CHECK = dg.AssetCheckKey(LOG, "fine")


@dataclass
class Catalogue:
    """An asset with one check, and what Dagster shows of it."""

    instance: dg.DagsterInstance

    def stream(self) -> None:
        self._run(lambda context: materialize(context, dg.AssetMaterialization(LOG), [CHECK]))

    def backfill(self) -> None:
        self._run(lambda context: context.log_event(dg.AssetMaterialization(LOG)))

    def check(self, passed: bool) -> None:
        @dg.multi_asset_check(specs=[dg.AssetCheckSpec("fine", asset=LOG)])
        def judge() -> Iterator[dg.AssetCheckResult]:
            yield dg.AssetCheckResult(passed=passed, metadata={"rows": 7}, description="Seven rows.")

        job = dg.define_asset_job("quality", dg.AssetSelection.checks(judge))
        defs = dg.Definitions(assets=[dg.AssetSpec(LOG)], asset_checks=[judge], jobs=[job])
        defs.resolve_job_def("quality").execute_in_process(instance=self.instance)

    def evaluation(self) -> dg.AssetCheckEvaluation | None:
        """The verdict on the check's page; None: "not evaluated"."""
        found = self.instance.event_log_storage.get_latest_asset_check_execution_by_key([CHECK])
        if CHECK not in found:
            return None
        current = found[CHECK].targets_latest_materialization(LoadingContextForTest(self.instance))
        return found[CHECK].evaluation if asyncio.run(current) else None

    def _run(self, body: Callable[[dg.AssetExecutionContext], None]) -> None:
        @dg.asset(key=["by", "hand"])
        def host(context: dg.AssetExecutionContext) -> None:
            body(context)

        dg.materialize([host], instance=self.instance)


@pytest.fixture
def catalogue() -> Iterator[Catalogue]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Catalogue(instance)


@pytest.mark.parametrize("passed", [True, False])
def test_a_verdict_outlives_each_materialization_of_a_stream(catalogue: Catalogue, passed: bool) -> None:
    catalogue.stream()
    catalogue.check(passed)
    first = catalogue.evaluation()
    for _ in range(2):
        catalogue.stream()
    shown = catalogue.evaluation()
    assert first is not None
    assert shown is not None
    assert (shown.passed, shown.description) == (passed, "Seven rows.")
    assert shown.metadata["rows"] == first.metadata["rows"]


def test_a_carried_verdict_says_when_it_was_reached(catalogue: Catalogue) -> None:
    catalogue.check(True)
    catalogue.stream()
    once = catalogue.evaluation()
    catalogue.stream()
    twice = catalogue.evaluation()
    assert once is not None
    assert twice is not None
    assert once.metadata[EVALUATED_AT] == twice.metadata[EVALUATED_AT]


def test_a_backfill_leaves_its_asset_to_be_judged_anew(catalogue: Catalogue) -> None:
    catalogue.check(True)
    catalogue.backfill()
    assert catalogue.evaluation() is None
    catalogue.stream()
    assert catalogue.evaluation() is None


def test_without_a_verdict_nothing_is_made_up(catalogue: Catalogue) -> None:
    catalogue.stream()
    catalogue.stream()
    assert catalogue.evaluation() is None
