"""A lake that may not be written is told before any write: by `headrace config check`, and by whoever takes a lease."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import TerminalError
from headrace.lake import small_files, storage
from headrace.lake.format import require_format
from headrace.log.clock import SystemClock
from headrace.preflight.lake import check_lake
from headrace.writing.lease import take_lease
from tests.preflight.careless_store import careless_store

if TYPE_CHECKING:
    from headrace.lake.paths import Lake

NO_SPARK: Any = None  # a lease is refused before Spark is asked


@pytest.fixture(autouse=True)
def _new_clients() -> Iterator[None]:
    """Clients are made once in a process, with the variables of that moment."""
    storage._store.cache_clear()
    yield
    storage._store.cache_clear()


def only_wrong(root: str) -> str:
    (finding,) = [finding for finding in check_lake(root) if not finding.ok]
    return str(finding)


@pytest.mark.fast
def test_a_lake_of_a_newer_version_is_refused_before_any_write(lake: Lake) -> None:
    small_files.write_json(f"{lake.root}/format.json", {"format": 2})
    assert "a newer version of Headrace has written it (format 2)" in only_wrong(lake.root)
    with pytest.raises(TerminalError, match="Nothing was changed"):
        take_lease(NO_SPARK, lake.lease("log/readings"), "Log 'readings'", SystemClock())
    assert small_files.names(lake.root) == ["format.json"]


@pytest.mark.fast
def test_a_new_lake_is_marked_once_and_its_check_leaves_nothing_behind(lake: Lake) -> None:
    assert all(finding.ok for finding in check_lake(lake.root))
    assert not [path for path in Path(lake.root.removeprefix("file:")).rglob("*") if path.is_file()]
    require_format(lake.root)
    assert small_files.read_json(f"{lake.root}/format.json") == {"format": 1}
    require_format(lake.root)
    assert "this version's" in str(next(iter(check_lake(lake.root))))


@pytest.mark.s3
def test_a_bucket_is_tried_with_its_credentials(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(finding.ok for finding in check_lake(s3_root))
    storage._store.cache_clear()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng")
    refused = only_wrong(s3_root)
    assert "the store refuses access" in refused
    assert "AWS_ACCESS_KEY_ID" in refused
    assert "wr0ng" not in refused


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
