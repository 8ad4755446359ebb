"""A table's rows are replaced only if nobody has changed them since they were read. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace import lake as lakes
from headrace.lake import kinds
from headrace.lake.care.swap import replace_table
from headrace.lake.commits.fence import FencedError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast


def test_an_appender_does_not_undo_what_a_newer_maintainer_has_done(tmp_path: Path) -> None:
    """An erasure is a maintainer's, and appenders pass its commits: the erased rows would be there again."""
    table, source = (
        lakes.create(f"file:{tmp_path}/{name}", pa.schema([("n", pa.int64())]), kinds.state(()))
        for name in ("log", "written_again")
    )
    appender, maintainer = (lakes.TableWriter(table, role) for role in (lakes.APPENDER, lakes.MAINTAINER))
    newer = lakes.TableWriter(table, lakes.MAINTAINER)
    with pytest.raises(FencedError, match="a newer maintainer has taken the table over"):
        replace_table(appender, source, {"writer": "rewrite"}, other_role=maintainer)
    assert lakes.last_commit(table, "rewrite") is None
    replace_table(appender, source, {"writer": "rewrite"}, other_role=newer)
    assert lakes.last_commit(table, "rewrite") is not None
