"""A mirror has the rows of one version of its table, whatever happens while it is written."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.expressions import AlwaysTrue
from typer.testing import CliRunner

from headrace.cli import app
from headrace.errors import TerminalError, TransientError
from headrace.lake import forget, open_table, small_files
from headrace.lake.care.vacuum import vacuum
from headrace.lake.paths import Lake
from headrace.mirror.equality import iceberg_equals_delta
from headrace.mirror.mirrored_table import VERSION, MirroredTable
from headrace.mirror.mirrors import Mirrors
from headrace.observe.sql import LakeSql
from headrace.settings import IcebergSettings
from tests.conftest import Drive
from tests.docs.documents import ROOT, python_blocks
from tests.mirror.conftest import (
    by_delta,
    by_duckdb,
    by_pyiceberg,
    counts,
    kept,
    mirror_of,
    pipe,
    rows_of,
    totals,
)

pytestmark = pytest.mark.fast
HOURS = 24.0
GUIDE = ROOT / "docs" / "guides" / "iceberg.md"


@pytest.mark.slow
def test_each_client_reads_the_rows_of_the_delta_table(drive: Drive) -> None:
    driver = drive(kept, counts, totals)
    mirrors = {node: mirror_of(driver, node) for node in ("kept", "counts", "totals")}
    for first in range(0, 60, 15):
        pipe(driver, first, first + 15)
        for node, mirror in mirrors.items():
            done = mirror.follow(HOURS)
            assert done.version == open_table(driver.lake.table(node)).version
            rows = by_delta(driver, node)
            assert by_pyiceberg(mirror) == rows
            assert by_duckdb(mirror, driver.lake.root) == rows
            answer = iceberg_equals_delta(mirror_of(driver, node))
            assert answer.equal, answer
            assert answer.version == done.version
            assert rows or first < 45
            assert not any("__" in row for row in rows)
    with LakeSql(Lake(driver.lake.root), [counts, totals, kept]) as sql:
        assert sql.names


def test_a_commit_that_changes_no_file_is_not_mirrored(drive: Drive) -> None:
    driver = drive(kept)
    pipe(driver, 0, 5)
    mirror = mirror_of(driver)
    assert mirror.follow(HOURS).added == 1
    before = mirror.mirrored()
    assert mirror.follow(HOURS).added == 0
    assert before is not None
    assert mirror.mirrored()[0].metadata_location == before[0].metadata_location  # type: ignore[index]


class _Crash(Exception):
    pass


@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_after_a_crash_or_a_lost_answer_the_next_round_goes_on(
    drive: Drive, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(kept)
    pipe(driver, 0, 5)
    mirror_of(driver).follow(HOURS)
    known = by_delta(driver, "kept")
    pipe(driver, 5, 12)
    crashed = mirror_of(driver)
    commit = crashed._catalog.commit_table

    def dies(*given: Any) -> Any:
        if when == "after the commit":
            commit(*given)
        raise _Crash

    monkeypatch.setattr(crashed._catalog, "commit_table", dies)
    with pytest.raises(_Crash):
        crashed.follow(HOURS)
    now = by_delta(driver, "kept")
    assert by_pyiceberg(mirror_of(driver)) == (now if when == "after the commit" else known)
    monkeypatch.setattr(crashed._catalog, "commit_table", commit)
    for mirror in (crashed, mirror_of(driver)):
        mirror.follow(HOURS)
        assert by_pyiceberg(mirror) == now
        assert iceberg_equals_delta(mirror).equal


def test_of_two_mirrors_at_once_one_begins_its_round_anew_and_no_file_is_named_twice(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(kept)
    pipe(driver, 0, 5)
    slow, quick = mirror_of(driver), mirror_of(driver)
    commit = slow._catalog.commit_table

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(slow._catalog, "commit_table", commit)
        assert quick.follow(HOURS).added == 1
        return commit(*given)

    slow._open()
    monkeypatch.setattr(slow._catalog, "commit_table", overtaken)
    for mirror in (slow, quick):
        assert mirror.follow(HOURS).added == 0
    assert by_pyiceberg(quick) == by_delta(driver, "kept")


def table_at(path: str, rows: pa.Table, **options: Any) -> MirroredTable:
    """A Delta table with these rows in a lake of its own, and its mirror."""
    write_deltalake(f"{path}/tables/kept", rows, **options)
    forget(f"file:{path}")
    found = Mirrors(Lake(f"file:{path}")).of_node("kept")
    assert found is not None
    return found


def test_columns_that_come_are_null_before(tmp_path: Any) -> None:
    first = pa.table({"k": pa.array([1], pa.int32()), "s": [{"a": 1}], "__own": [1]})
    table_at(str(tmp_path), first).follow(HOURS)
    grown = pa.table({"k": pa.array([2], pa.int32()), "s": [{"a": 2, "b": "x"}], "__own": [1], "new": [0.5]})
    mirror = table_at(str(tmp_path), grown, mode="append", schema_mode="merge")
    mirror.follow(HOURS)
    found = mirror.mirrored()
    assert found is not None
    assert sorted(found[0].scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == [
        {"k": 1, "s": {"a": 1, "b": None}, "new": None},
        {"k": 2, "s": {"a": 2, "b": "x"}, "new": 0.5},
    ]
    assert iceberg_equals_delta(mirror).equal


def test_where_columns_become_others_no_snapshot_shows_old_rows_under_new_names(tmp_path: Any) -> None:
    table_at(str(tmp_path), pa.table({"k": ["a"], "v": [1], "gone": [True]})).follow(HOURS)
    rows = pa.table({"k": ["a", "b"], "v": ["one", "two"]})
    mirror = table_at(str(tmp_path), rows, mode="overwrite", schema_mode="overwrite")
    mirror.follow(HOURS)
    found = mirror.mirrored()
    assert found is not None
    assert found[0].scan().to_arrow().to_pylist() == rows.to_pylist()
    assert len(found[0].metadata.snapshots) == 1
    assert iceberg_equals_delta(mirror).equal


@pytest.mark.slow
def test_hundreds_of_commits_leave_few_manifests_and_snapshots(tmp_path: Any) -> None:
    path = f"{tmp_path}/tables/kept"
    mirror = table_at(str(tmp_path), pa.table({"k": [0]}))
    for number in range(1, 60):
        write_deltalake(path, pa.table({"k": [number]}), mode="append")
        if number % 10 == 0:
            DeltaTable(path).optimize.compact()  # files leave, and one comes
        mirror.follow(HOURS)
    found = mirror.mirrored()
    assert found is not None
    table = found[0]
    assert len(table.current_snapshot().manifests(table.io)) <= 21
    assert len(table.metadata.snapshots) == 59
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [*range(60)]
    time.sleep(0.01)
    mirror.follow(1e-6)
    assert len(mirror.mirrored()[0].metadata.snapshots) == 1  # type: ignore[index]
    assert (
        len([name for name in os.listdir(f"{tmp_path}/iceberg/headrace/kept/metadata") if "json" in name])
        <= 21
    )
    assert mirror.remove_unused() == 0  # all are young
    for name in os.listdir(folder := f"{tmp_path}/iceberg/headrace/kept/metadata"):
        os.utime(f"{folder}/{name}", (1, 1))
    assert mirror.remove_unused() > 50
    assert iceberg_equals_delta(mirror).equal


def test_vacuum_keeps_what_a_live_snapshot_names_and_deletes_it_after_that(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = table_at(str(tmp_path), pa.table({"k": [1]}))
    mirror.follow(HOURS)
    (old,) = mirror.names()
    write_deltalake(f"{tmp_path}/tables/kept", pa.table({"k": [2]}), mode="overwrite")
    monkeypatch.setattr("headrace.lake.care.vacuum.in_no_version", lambda *_: [old])
    table = open_table(mirror.uri)
    assert (
        vacuum(table, 0, keeps=mirror.names()) == []
    )  # the mirror is behind: its newest snapshot names the file
    assert by_pyiceberg(mirror)
    mirror.follow(HOURS)
    assert vacuum(table, 0, keeps=mirror.names()) == []  # an older snapshot names it
    time.sleep(0.01)
    mirror.follow(1e-6)
    assert old not in mirror.names()
    assert vacuum(table, 0, keeps=mirror.names()) == [old]
    assert not small_files.exists(f"{mirror.uri}/{old}")
    assert list(by_pyiceberg(mirror)) == ["{'k': 2}"]


def test_the_snapshot_names_the_version_and_other_engines_may_delete_nothing(drive: Drive) -> None:
    driver = drive(kept)
    pipe(driver, 0, 5)
    mirror = mirror_of(driver)
    mirror.follow(HOURS)
    found = mirror.mirrored()
    assert found is not None
    table, version = found
    assert table.current_snapshot().summary[VERSION] == str(version) == str(open_table(mirror.uri).version)
    assert table.properties["gc.enabled"] == "false"


def test_a_table_of_another_lake_under_the_name_is_refused(drive: Drive) -> None:
    first, second = drive(kept), drive(kept)
    for driver in (first, second):
        pipe(driver, 0, 5)
    mirror_of(first).follow(HOURS)
    with pytest.raises(TerminalError, match="is not the mirror of"):
        mirror_of(second).follow(HOURS)


def test_a_table_that_is_gone_leaves_the_catalog(drive: Drive) -> None:
    driver = drive(kept, totals)
    pipe(driver, 0, 5)
    for node in ("kept", "totals"):
        mirror_of(driver, node).follow(HOURS)
    small_files.delete(driver.lake.table("kept"))
    forget(driver.lake.root)
    mirrors = Mirrors(Lake(driver.lake.root))
    assert mirrors.drop_gone() == ["headrace.kept"]
    assert mirrors.of("kept").mirrored() is None  # type: ignore[union-attr]
    assert mirrors.of("totals").mirrored() is not None  # type: ignore[union-attr]


def test_a_difference_is_found(drive: Drive) -> None:
    driver = drive(kept)
    pipe(driver, 0, 5)
    mirror = mirror_of(driver)
    mirror.follow(HOURS)
    found = mirror.mirrored()
    assert found is not None
    table, version = found
    with (
        table.transaction() as work,
        work.update_snapshot(snapshot_properties={VERSION: str(version)}).delete() as delete,
    ):
        delete.delete_by_predicate(AlwaysTrue())
    answer = iceberg_equals_delta(mirror_of(driver))
    assert not answer.equal
    assert "differs in 1 files" in answer.sentence


def test_a_catalog_that_is_away_is_named_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch, drive: Drive
) -> None:
    driver = drive(kept)
    monkeypatch.setenv("HEADRACE_ICEBERG_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("HEADRACE_ICEBERG_CREDENTIAL", "client:very-secret")
    with pytest.raises(TransientError, match="does not answer") as caught:
        Mirrors(Lake(driver.lake.root)).of("kept")
    assert "very-secret" not in str(caught.value)


def test_a_setting_that_only_a_rest_catalog_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_ICEBERG_TOKEN", "t")
    with pytest.raises(TerminalError, match="HEADRACE_ICEBERG_TOKEN: only a REST catalog takes that"):
        IcebergSettings()


def test_the_command_mirrors_and_checks(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = drive(kept, counts)
    pipe(driver, 0, 30)
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: [kept, counts])
    monkeypatch.setattr("headrace.cli.console.deployment.Deployment.require_lake", lambda _: None)
    words = ["mirror", "--lake", driver.lake.root]
    before = CliRunner().invoke(app, [*words, "--check"])
    assert (before.exit_code, "has no snapshot in the catalog yet" in before.output) == (1, True)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.exception
    assert "kept: equals version" in done.output
    (block,) = (each for each in python_blocks(GUIDE) if "load_catalog" in each.code)
    names: dict[str, Any] = {}
    in_guide = {
        "sqlite:////data/catalog.db": os.environ["HEADRACE_ICEBERG_URI"],
        "headrace.alerts": "headrace.kept",
    }
    exec(re.sub("|".join(in_guide), lambda m: in_guide[m[0]], block.code), names)
    read = names["table"]
    assert f"headrace.kept: {read.metadata_location}" in done.output.replace("\n", "")
    assert rows_of(read.scan().to_arrow()) == by_delta(driver, "kept")
    after = CliRunner().invoke(app, [*words, "--check"])
    assert after.exit_code == 0, after.output
    assert "counts: The mirror has the" in after.output


def test_a_catalog_in_a_folder_that_is_not_there_is_an_error_that_says_so(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(kept)
    monkeypatch.setenv("HEADRACE_ICEBERG_URI", f"sqlite:///{tmp_path}/nowhere/catalog.db")
    with pytest.raises(TransientError) as caught:
        mirror_of(driver)
    assert "unable to open database file" in str(caught.value.detail)
    assert "the folder of a database in a file has to be there" in str(caught.value.hint)
