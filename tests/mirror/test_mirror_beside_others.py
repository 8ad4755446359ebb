"""A mirror beside others that commit to its catalog, and with a catalog that goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import app
from headrace.errors import TransientError
from headrace.lake.paths import Lake
from headrace.lifecycle.maintenance import Maintenance
from headrace.mirror.mirrored_table import MirroredTable
from headrace.mirror.mirrors import Mirrors
from tests.mirror.conftest import by_delta, by_pyiceberg, kept, mirror_of, pipe

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.fast
HOURS = 24.0
VALUE: dict[str, Any] = {"key": "sensor_id STRING", "value": "value DOUBLE"}
dashed, dotted = hr.Topic("a-b", **VALUE).named("dashed"), hr.Topic("a.b", **VALUE).named("dotted")


def mirror(driver: TestDriver, monkeypatch: pytest.MonkeyPatch, *nodes: Any) -> Result:
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: nodes)
    monkeypatch.setattr("headrace.cli.console.deployment.Deployment.require_lake", lambda _: None)
    return CliRunner().invoke(app, ["mirror", "--lake", driver.lake.root])


def test_the_command_beside_the_mirror_of_a_stream_tries_its_round_again(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it ended as by an error of Headrace."""
    driver = drive(kept)
    pipe(driver, 0, 5)
    mirror_of(driver).follow(HOURS)
    pipe(driver, 5, 9)
    entries, left = MirroredTable._entries_of, [mirror_of(driver)]

    def overtaken(self: MirroredTable, table: Any) -> Any:
        if left:
            assert left.pop().follow(HOURS).added == 1
        return entries(self, table)

    monkeypatch.setattr(MirroredTable, "_entries_of", overtaken)
    done = mirror(driver, monkeypatch, kept)
    assert done.exit_code == 0, done.exception
    assert by_pyiceberg(mirror_of(driver)) == by_delta(driver, "kept")


def test_a_catalog_that_goes_away_later_is_away_too(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, only a catalog that was away at first was one that may come back."""
    driver = drive(kept)
    pipe(driver, 0, 5)
    mirrors = Mirrors(Lake(driver.lake.root))
    found = mirrors.of("kept")
    assert found is not None

    def away(*_: object) -> Any:
        raise OperationalError(f"SELECT 1 /* {found._catalog.properties['uri']} */", None, OSError("away"))

    monkeypatch.setattr(found._catalog, "load_table", away)
    monkeypatch.setattr(found._catalog, "list_tables", away)
    for asked in (lambda: found.follow(HOURS), found.remove_unused, found.mirrored, mirrors.drop_gone):
        with pytest.raises(TransientError, match="does not answer as it should") as told:
            asked()
        assert "OperationalError" in str(told.value)
        assert "catalog.db" not in str(told.value)


def test_of_two_topics_with_one_name_in_the_catalog_one_is_left_out_and_the_others_are_mirrored(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the command ended there."""
    monkeypatch.setenv("HEADRACE_ICEBERG_LOGS", '["a-b", "a.b"]')
    driver = drive(dashed, dotted)
    for topic in ("a-b", "a.b"):
        driver.pipe(topic, key="s", value={"value": 1.0})
    driver.cut()
    done = mirror(driver, monkeypatch, dashed, dotted)
    assert done.exit_code == 1, done.exception
    told = " ".join(done.output.split())
    assert "log/a.b: The catalog's table headrace_logs.a_b is not the mirror of" in told
    assert "dotted: equals version" in told


def test_maintenance_goes_on_to_its_end_without_the_catalog(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it did all of its work, and then ended with the error of the catalog."""
    driver = drive(kept)
    pipe(driver, 0, 5)
    monkeypatch.setenv("HEADRACE_ICEBERG_URI", f"sqlite:///{tmp_path}/nowhere/catalog.db")
    *_, last = Maintenance(driver._session, driver.lake, [kept]).run()
    assert (last.of, last.what) == ("the Iceberg catalog", "mirrors of tables that are gone")
    assert "does not answer as it should" in (last.skipped or "")
