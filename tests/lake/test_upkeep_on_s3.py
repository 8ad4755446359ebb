"""The fence and upkeep on a real S3 server."""

from __future__ import annotations

import pytest

from headrace.lake import (
    APPENDER,
    MAINTAINER,
    FencedError,
    TableWriter,
    create,
    forget,
    kinds,
    last_commit,
    open_table,
    small_files,
)
from headrace.lake.care import upkeep
from headrace.lake.care.vacuum import UNUSED, vacuum
from tests.lake.fenced_process import SCHEMA, written

pytestmark = pytest.mark.s3


def test_appends_compaction_clean_up_and_vacuum(s3_root: str) -> None:
    table = create(f"{s3_root}/ta ble", SCHEMA, kinds.log(("position",)))
    old, maintainer = TableWriter(table, APPENDER), TableWriter(table, MAINTAINER)
    for position in range(3):
        old.append([written(table, position)], {"writer": "appender", "next": position + 1})
    new = TableWriter(table, APPENDER)
    with pytest.raises(FencedError, match="epoch 2"):
        old.append([written(table, 3)], {"writer": "appender", "next": 4})
    new.append([written(table, 3)], {"writer": "appender", "next": 4})
    files = upkeep.choose(table.snapshot(), "position", 2)
    assert len(files) == 3
    assert upkeep.compact(table, maintainer, files, {"writer": "compaction"}, column="position") is not None
    assert upkeep.compact(table, maintainer, files, {"writer": "compaction"}, column="position") is None
    table.checkpoint()
    upkeep.clean(table, maintainer)
    for hidden in ("_guard/0/seen.json", "_settled.json"):
        small_files.write_json(f"{table.uri}/{hidden}", {})
    assert vacuum(table, 1, settled_hours=0) == []
    assert len(small_files.names(f"{table.uri}/{UNUSED}")) == 1
    gone = vacuum(table, 0, settled_hours=0)
    assert {*files} < {*gone}  # and the file of the appender that was overtaken
    forget()
    again = open_table(table.uri)
    assert (again.snapshot().rows, len(again.snapshot().files)) == (4, 2)
    assert vacuum(table, 0, settled_hours=0) == []
    assert set(small_files.names(table.uri)) - {UNUSED} == {  # the server may keep an empty folder
        *again.snapshot().files,
        "_delta_log",
        "_guard",
        "_settled.json",
    }
    found = last_commit(again, "appender")
    assert found is not None
    assert found.record["next"] == 4
