"""A reload of the code and restarts of Dagster, while a stream runs and after a person has stopped it.

What the sensor decides of each history of runs: `test_supervision.py`.
"""

from __future__ import annotations

import pytest

from tests.orchestration.site import CANCELED, CODE, STARTED, Site, lives, pid_of, send, site

__all__ = ["site"]
pytestmark = [pytest.mark.dagster, pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


def test_neither_a_reload_of_the_code_nor_a_restart_of_dagster_disturbs_it_or_starts_another(
    site: Site,
) -> None:
    send(site, 0, 9)
    site.until(site.streaming(20))
    (run,) = site.runs(STARTED)
    before, pid = set(site.runs()), pid_of(site.world.instance, run)
    site.client.reload_repository_location(CODE.name)
    assert "is started" in str(site.next_tick()["skipReason"])
    site.stop()
    site.start()
    assert "is started" in str(site.next_tick()["skipReason"])
    send(site, 10, 19)
    site.until(site.streaming(40, run))
    assert (set(site.runs()), pid_of(site.world.instance, run), lives(pid)) == (before, pid, True)


def test_terminated_it_stays_stopped_over_a_restart_of_dagster(site: Site) -> None:
    (run,) = site.runs(STARTED)
    known = set(site.runs())
    site.client.terminate_run(run)
    site.until(lambda: site.status(run) is CANCELED)
    assert "stopped by a person" in str(site.next_tick()["skipReason"])
    site.stop()
    site.start()
    assert "stopped by a person" in str(site.next_tick()["skipReason"])
    assert set(site.runs()) == known
