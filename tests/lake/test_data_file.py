"""A file that a task writes: its groups of rows, few calls of Python, and nothing left of one that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lake.files.data_file import DataFileWriter, Encoding, Sink

pytestmark = pytest.mark.fast

ROWS = pa.table({f"c{n}": [*range(10)] for n in range(20)})


def columns() -> dict[str, pa.ChunkedArray]:
    return dict(zip(ROWS.column_names, ROWS.columns, strict=True))


def test_rows_lie_in_groups_of_a_size_and_the_footer_is_that_of_the_file(tmp_path: Path) -> None:
    writer = DataFileWriter(str(tmp_path), ROWS.schema, Encoding())
    writer.write(columns(), 10, group_rows=4)
    writer.write(columns(), 10)
    written = writer.close()
    assert written is not None
    file = tmp_path / written["path"]
    assert file.stat().st_size == written["size"]
    assert pq.read_table(file).equals(pa.concat_tables([ROWS, ROWS]))
    for footer in (writer.footer, pq.read_metadata(file)):
        assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [4, 4, 2, 10]
    known = pq.ParquetFile(file, metadata=writer.footer)
    assert known.read_row_groups([1, 3]).equals(pa.concat_tables([ROWS.slice(4, 4), ROWS]))


def test_pages_of_a_small_file_reach_python_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    really = Sink.write

    def counted(sink: Sink, data: Any) -> int:
        sizes.append(len(data))
        return really(sink, data)

    monkeypatch.setattr(Sink, "write", counted)
    writer = DataFileWriter(str(tmp_path), ROWS.schema, Encoding())
    for _ in range(10):
        writer.write(columns(), 10)
    written = writer.close()
    assert written is not None
    assert sizes == [written["size"]]


def test_nothing_is_left_of_a_file_for_which_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = Sink.write

    def full(sink: Sink, data: Any) -> int:
        really(sink, bytes(data)[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Sink, "write", full)
    writer = DataFileWriter(str(tmp_path), ROWS.schema, Encoding())
    writer.write(columns(), 10)
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    assert [*tmp_path.iterdir()]
    writer.remove()
    assert not [*tmp_path.iterdir()]
