"""A lost commit is taken from files that no version names: each of its rows once, however often somebody has written it. No Spark."""

from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pytest

from headrace.log.commit_row import CommitRow
from headrace.log.history.stray_commits import _whole
from headrace.sequence.log_columns import CONTROL, RECORD, TICK
from headrace.sequence.log_state import LastRow, LogState
from tests.laws.kernel.records import NOW_MS

pytestmark = pytest.mark.fast

COLUMNS = {"kind": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "control": pa.string()}


def rows(*of: tuple[str, int | None, str | None]) -> pa.Table:
    """Rows of partition 0: kind, offset, and what a control row says."""
    columns = [[kind for kind, _, _ in of], [0] * len(of), [at for _, at, _ in of], [said for *_, said in of]]
    return pa.table(dict(zip(COLUMNS, columns, strict=True)), pa.schema(COLUMNS))


@pytest.mark.parametrize("records", [0, 2])
def test_a_repair_that_died_with_a_copy_gives_no_row_twice(records: int) -> None:
    """It had copied the rows of several files into one, and committed nothing: the next one finds all of them."""
    after = LogState().after(NOW_MS, [LastRow(0, records, NOW_MS)] if records else [])
    row = CommitRow(after, {}, records)
    taken = [(RECORD, offset, None) for offset in range(records)]
    tick, commit = (TICK, None, None), (CONTROL, None, row.to_json())
    files = [rows(*taken, tick), rows(commit), rows(*taken, tick, commit)]
    for order in permutations(files):
        whole = _whole(order, row)
        assert whole is not None
        assert sorted(map(str, whole.to_pylist())) == sorted(map(str, files[2].to_pylist()))


def test_a_commit_that_lacks_a_record_is_none() -> None:
    row = CommitRow(LogState().after(NOW_MS, [LastRow(0, 2, NOW_MS)]), {}, 2)
    assert _whole([rows((RECORD, 0, None)), rows((CONTROL, None, row.to_json()))], row) is None
