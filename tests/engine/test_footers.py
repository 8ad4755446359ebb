"""A footer takes memory for each column of each group of rows: one that nobody has is freed at once, not when Python looks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine.state_parquet import Footers
from headrace.lake.files.group_bounds import GroupBounds

pytestmark = pytest.mark.fast


@pytest.fixture
def garbage() -> Iterator[None]:
    """What only the collector can free is kept in `gc.garbage`."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def test_a_footer_that_nobody_has_is_freed_at_once(garbage: None, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"by_hash": [{"n": 1}], "hash": [7], "time": [9]}), path)

    footer, _ = Footers(bytes_max=1).of(str(path), path.stat().st_size)  # it remembers none
    assert footer.columns == {"by_hash", "hash", "time"}
    assert (footer.hashes.tolist(), footer.times.tolist()) == ([[7, 7]], [[9, 9]])
    del footer
    with pq.ParquetFile(path) as file:
        assert GroupBounds(file.metadata).of(0, "by_hash.n") == (1, 1)
        assert GroupBounds(file.metadata).of(0, "n") is None
    del file
    gc.collect()
    assert not [each for each in gc.garbage if isinstance(each, pq.FileMetaData)]
