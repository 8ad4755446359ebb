"""Who writes a log again looks at the leases of all that read it before the rows are replaced. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.log.clock import SystemClock
from headrace.writing.leases import lease_waits
from tests.changing.held import NO_SPARK

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")


class Held:
    """A lease that nobody takes away."""

    def __init__(self, folder: str) -> None:
        self.folder, self.is_released = folder, False

    def release(self) -> None:
        self.is_released = True


def test_the_leases_of_a_log_and_of_its_nodes_are_known_to_who_holds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(spark: Any, folder: str, *args: object) -> Held:
        return Held(folder)

    monkeypatch.setattr(lease_waits, "take_lease_patiently", take)
    lake = Lake(f"file:{tmp_path}")
    with lease_waits.nothing_writes(NO_SPARK, lake, READINGS, ["totals"], SystemClock()) as leases:
        held: dict[str, Any] = {**leases}
        assert {name: each.folder for name, each in held.items()} == {
            "log/readings": lake.lease("log/readings"),
            "node/totals": lake.lease("node/totals"),
            "totals": lake.lease("backfill/totals"),
        }
    assert all(each.is_released for each in held.values())
