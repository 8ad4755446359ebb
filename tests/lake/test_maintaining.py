"""The maintainer of a table in a process: shared by all who maintain it there, and taken anew when it was overtaken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace import lake as lakes
from headrace.lake import LakeTable, TableWriter
from headrace.lake.care.maintaining import MaintainedElsewhereError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return lakes.create(f"file:{tmp_path}/table", pa.schema([("n", pa.int64())]))


def test_all_who_maintain_a_table_in_a_process_share_one_writer(table: LakeTable) -> None:
    epochs = [
        lakes.as_maintainer(table, lambda writer: (writer.append([], {"writer": "x"}), writer.epoch)[1])
        for _ in range(3)
    ]
    assert epochs == [1, 1, 1]


def test_one_that_maintenance_of_another_process_overtook_tries_again(table: LakeTable) -> None:
    lakes.as_maintainer(table, lambda writer: writer.append([], {"writer": "x"}))
    TableWriter(table, lakes.MAINTAINER)  # of another process
    version = lakes.as_maintainer(table, lambda writer: writer.append([], {"writer": "x"}))
    assert table.version == version


def test_one_that_is_overtaken_each_time_gives_up_and_says_so(table: LakeTable) -> None:
    def overtaken(writer: TableWriter) -> int:
        TableWriter(table, lakes.MAINTAINER)
        return writer.append([], {"writer": "x"})

    with pytest.raises(MaintainedElsewhereError, match="another process took the table over"):
        lakes.as_maintainer(table, overtaken)


def test_after_any_error_the_next_one_is_new(table: LakeTable) -> None:
    def failing(writer: TableWriter) -> int:
        raise OSError("the disk was away")

    with pytest.raises(OSError, match="the disk was away"):
        lakes.as_maintainer(table, failing)
    assert table.maintainer is None
    assert lakes.as_maintainer(table, lambda writer: writer.epoch) == 2
