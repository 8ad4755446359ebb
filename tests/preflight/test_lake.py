"""A lake that may not be written is told before any write: by `headrace config check`, and by whoever takes a lease."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import TerminalError
from headrace.lake import clocks, small_files, storage
from headrace.lake.clocks import ClocksApartError
from headrace.lake.format import FORMAT, require_format
from headrace.lake.paths import Lake
from headrace.log.clock import SystemClock
from headrace.preflight.lake import check_lake
from headrace.writing.leases.lease import take_lease
from tests.preflight.careless_store import careless_store

NO_SPARK: Any = None  # a lease is refused before Spark is asked


@pytest.fixture(autouse=True)
def _new_clients() -> Iterator[None]:
    """Clients are made once in a process, with the variables of that moment."""
    for cached in (storage._store, clocks._measured):
        cached.cache_clear()
    yield
    for cached in (storage._store, clocks._measured):
        cached.cache_clear()


def only_wrong(root: str) -> str:
    (finding,) = [finding for finding in check_lake(root) if not finding.ok]
    return str(finding)


@pytest.mark.fast
@pytest.mark.parametrize(("format", "age"), [(FORMAT - 1, "an older"), (FORMAT + 1, "a newer")])
def test_a_lake_of_another_version_is_refused_before_any_write(lake: Lake, format: int, age: str) -> None:
    small_files.write_json(f"{lake.root}/format.json", {"format": format})
    assert f"{age} version of Headrace has written it (format {format})" in only_wrong(lake.root)
    with pytest.raises(TerminalError, match="Nothing was changed"):
        take_lease(NO_SPARK, lake.lease("log/readings"), "Log 'readings'", SystemClock())
    assert small_files.names(lake.root) == ["format.json"]


@pytest.mark.fast
@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"format": "newest"}', b"\xff"])
def test_a_lake_whose_mark_cannot_be_read_is_refused(content: bytes, lake: Lake) -> None:
    small_files.write_bytes(f"{lake.root}/format.json", content)
    assert "does not say which version has written it" in only_wrong(lake.root)
    with pytest.raises(TerminalError, match="Nothing was changed"):
        require_format(lake.root)
    assert small_files.read_bytes(f"{lake.root}/format.json") == content


@pytest.mark.fast
def test_a_new_lake_is_marked_once_and_its_check_leaves_nothing_behind(lake: Lake) -> None:
    assert all(finding.ok for finding in check_lake(lake.root))
    assert not [path for path in Path(lake.root.removeprefix("file:")).rglob("*") if path.is_file()]
    require_format(lake.root)
    assert small_files.read_json(f"{lake.root}/format.json") == {"format": FORMAT}
    require_format(lake.root)
    assert "this version's" in str(next(iter(check_lake(lake.root))))


@pytest.mark.fast
def test_a_folder_in_which_nothing_can_be_made_is_a_finding() -> None:
    refused = only_wrong("file:/proc/nowhere/lake")
    assert "/proc/nowhere" in refused
    assert "the right to read and write there" in refused


@pytest.mark.s3
def test_a_bucket_is_tried_with_its_credentials(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(finding.ok for finding in check_lake(s3_root))
    storage._store.cache_clear()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng")
    refused = only_wrong(s3_root)
    assert "the store refuses access" in refused
    assert "AWS_ACCESS_KEY_ID" in refused
    assert "wr0ng" not in refused


@pytest.mark.s3
@pytest.mark.parametrize(
    ("apart_ms", "told"), [(63_000, r"6[123] s ahead of"), (-63_000, r"6[234] s behind")]
)
def test_a_clock_that_is_apart_from_the_stores_takes_no_lease(
    apart_ms: int, told: str, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_ms = clocks.machine_ms
    monkeypatch.setattr(clocks, "machine_ms", lambda: machine_ms() + apart_ms)
    assert re.search(f"this machine's clock is {told} that of the store", only_wrong(s3_root))
    with pytest.raises(ClocksApartError, match=told):
        take_lease(NO_SPARK, Lake(s3_root).lease("log/readings"), "Log 'readings'", SystemClock())
    assert small_files.names(s3_root) == ["checks", "format.json"]


@pytest.mark.fast
def test_the_stores_clock_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def agrees(uri: str) -> int:
        asked.append(uri)
        return 0

    monkeypatch.setattr(clocks, "ahead_ms", agrees)
    for minute in (1, 1, 2):
        monkeypatch.setattr(clocks, "minute", partial(int, minute))
        clocks.require_clocks("s3://lake/clocks")
    assert asked == ["s3://lake/clocks/checks/clock.json"] * 2


@pytest.mark.fast
def test_a_store_without_conditional_puts_and_a_missing_bucket_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with careless_store() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert "there is no such bucket" in only_wrong("s3://nowhere/lake")
        assert "no conditional puts" in only_wrong("s3://lake/careless")
        with pytest.raises(TerminalError, match="no conditional puts"):
            require_format("s3://lake/careless")
