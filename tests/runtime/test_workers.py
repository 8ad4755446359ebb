"""What a Python worker is spared between tasks."""

from __future__ import annotations

import gc
import importlib
import sys
import zipimport
from typing import TYPE_CHECKING
from zipfile import ZipFile

from headrace.spark.workers import settle

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_archives_are_not_read_again_and_still_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive.zip"
    with ZipFile(archive, "w") as modules:
        for name in ("archived_one", "archived_two"):
            modules.writestr(f"{name}.py", f"NAME = '{name}'")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("archived_one").NAME == "archived_one"
    try:
        settle()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert str(archive) not in sys.path_importer_cache

    def read(*_: object) -> None:
        raise AssertionError("the directory of an archive was read")

    with monkeypatch.context() as refusing:
        refusing.setattr(zipimport, "_read_directory", read)
        importlib.invalidate_caches()
    assert importlib.import_module("archived_two").NAME == "archived_two"
