"""The bench of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.harness import kafka
from tests.log.bench import Bench

__all__ = ["bench", "kafka"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A sequencer on an empty log."""
    return Bench(tmp_path / "log")
