"""Small files that are overwritten while others read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from headrace.spark import files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
WRITTEN = 300


def test_who_reads_while_a_file_is_overwritten_finds_it_whole(spark: SparkSession, tmp_path: Path) -> None:
    uri = f"file:{tmp_path}/promised.json"
    files.write_json(spark, uri, {"upto": 0})

    def write() -> None:
        for number in range(1, WRITTEN):
            files.write_json(spark, uri, {"upto": number})

    with ThreadPoolExecutor(1) as writers:
        writing, seen = writers.submit(write), [0]
        while not writing.done():
            found = files.read_json(spark, uri)
            assert found is not None
            seen.append(found["upto"])
        writing.result()
    assert seen == sorted(seen)
    assert files.read_json(spark, uri) == {"upto": WRITTEN - 1}


def test_a_checksum_of_hadoop_that_an_overwritten_file_had_goes_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri, checksum = f"file:{tmp_path}/old.json", tmp_path / ".old.json.crc"
    (tmp_path / "old.json").write_text("{}")
    checksum.write_bytes(b"of something else")
    files.write_json(spark, uri, {"upto": 1})
    assert files.read_json(spark, uri) == {"upto": 1}
    assert not checksum.exists()
