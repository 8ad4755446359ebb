"""Search for a text in the files of a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from headrace.spark.lake_rows import read

if TYPE_CHECKING:
    from headrace.testing import TestDriver


def files_with(driver: TestDriver, text: str) -> list[str]:
    """The files of the newest versions of all tables that hold a text."""
    root = Path(driver._lake.root.removeprefix("file:"))
    found = []
    for log in root.rglob("_delta_log"):
        listed = read(driver.spark, f"file:{log.parent}").inputFiles()
        paths = [unquote(urlparse(uri).path) for uri in listed]
        found += [path for path in paths if text in str(pq.read_table(path).to_pylist())]
    return found
