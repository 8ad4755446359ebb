"""A backup on another store: from a disk to S3, within S3, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.lake.paths import Lake
from headrace.lifecycle.backup import back_up, restore
from tests.backup.test_backup import NODES, Copied, not_shown

pytestmark = pytest.mark.s3


@pytest.fixture
def driver() -> Iterator[Copied]:
    one = Copied(NODES)
    yield one
    one.close()


def test_a_lake_goes_to_s3_within_it_and_back(driver: Copied, s3_root: str, tmp_path: Path) -> None:
    driver.pipe_through(12)
    done = back_up(driver.lake, NODES, f"{s3_root}/copy", not_shown)
    restore(f"{s3_root}/copy", Lake(f"{s3_root}/lake"), not_shown)
    again = back_up(Lake(f"{s3_root}/lake"), NODES, f"file:{tmp_path / 'copy'}", not_shown)
    assert (again.tables, again.files, again.bytes) == (done.tables, done.files, done.bytes)
    follower = Copied(NODES)
    try:
        follower.go_on_from(f"file:{tmp_path / 'copy'}")
        follower.pipe_through()
        driver.pipe_through()
        assert follower.tables() == driver.tables()
    finally:
        follower.close()
