"""Small files, on a local disk and elsewhere; and while they are overwritten."""

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


@pytest.mark.parametrize("scheme", ["file", "viewfs"])
def test_a_file_system_of_any_scheme_keeps_small_files(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    """Hadoop's view of other file systems stands for all that are not the local disk."""
    session, uri = spark.newSession(), f"file:{tmp_path}/a b"
    if scheme == "viewfs":
        name = f"lake{tmp_path.name.replace('_', '-')}"
        session.conf.set(f"fs.viewfs.mounttable.{name}.link./here", f"file://{tmp_path}")
        uri = f"viewfs://{name}/here/a b"
    one, two = f"{uri}/one.json", f"{uri}/two.json"
    assert files.read_json(session, one) is None
    assert files.names(session, uri) == []
    assert not files.exists(session, one)
    assert files.write_json(session, two, {"n": 2})
    assert files.write_json(session, one, {"n": 1, "über": "ß"}, overwrite=False)
    assert not files.write_json(session, one, {"n": 3}, overwrite=False)
    assert files.read_json(session, one) == {"n": 1, "über": "ß"}
    assert files.write_json(session, two, {"n": 4})
    assert files.read_json(session, two) == {"n": 4}
    assert files.names(session, uri) == ["one.json", "two.json"]
    assert files.exists(session, uri)
    files.delete(session, uri)
    files.delete(session, uri)
    assert not files.exists(session, one)


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
