"""Search for a text in the files of a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.parquet as pq

from headrace import lake as lakes

if TYPE_CHECKING:
    from headrace.testing import TestDriver


def files_with(driver: TestDriver, text: str) -> list[str]:
    """The files of the newest versions of all tables that hold a text."""
    root = Path(driver._lake.root.removeprefix("file:"))
    found = []
    for log in root.rglob("_delta_log"):
        files = lakes.open_table(f"file:{log.parent}").snapshot().files
        paths = [str(log.parent / unquote(name)) for name in files]
        found += [path for path in paths if text in str(pq.read_table(path).to_pylist())]
    return found
