"""The digest of the code: equal for equal files, another one for changed code, and none to rely on once files have changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headrace
from headrace.writing.code_digest import digest_of_files

pytestmark = pytest.mark.fast

LATER = time.time() + 86_400


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    (folder / "part").mkdir(parents=True)
    (folder / "one.py").write_text("LIMIT = 1")
    (folder / "part" / "two.py").write_text("LIMIT = 2")
    return folder


def test_equal_code_has_one_digest_wherever_it_lies_and_whatever_stands_beside_it(code: Path) -> None:
    copy = code.parent / "copy"
    shutil.copytree(code, copy)
    (copy / "page.html").write_text("no code")
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "one.cpython-311.pyc").write_bytes(b"made of it")
    assert digest_of_files(copy, LATER) == digest_of_files(code, LATER)


def test_changed_moved_and_new_code_has_another_digest(code: Path) -> None:
    before = {digest_of_files(code, LATER)}
    (code / "part" / "two.py").write_text("LIMIT = 3")
    before.add(digest_of_files(code, LATER))
    (code / "part" / "two.py").rename(code / "two.py")
    before.add(digest_of_files(code, LATER))
    (code / "three.py").touch()
    before.add(digest_of_files(code, LATER))
    assert len(before) == 4


def test_code_that_was_changed_after_it_was_loaded_has_no_digest_of_files(code: Path) -> None:
    (code / "one.py").write_text("LIMIT = 9")
    os.utime(code / "one.py", (0, 0))  # as unpacking sets it
    loaded_at = (code / "one.py").stat().st_ctime - 0.001
    assert digest_of_files(code, loaded_at) != digest_of_files(code, loaded_at)


def test_processes_that_run_the_same_code_agree() -> None:
    asks = "from headrace.writing.code_digest import code_digest; print(code_digest())"
    asked = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == digest_of_files(Path(headrace.__file__).parent, LATER)
