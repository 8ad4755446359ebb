from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_LAKE", str(tmp_path / "lake"))
    return tmp_path / "lake"
