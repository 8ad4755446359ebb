"""A lake for each test, and a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.harness import lake
from tests.runtime.supervising import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["lake"]


@pytest.fixture
def stream() -> Iterator[Loop]:
    """A loop whose work a test hands in."""
    made = Loop()
    yield made
    made.does = lambda: 1
    made.drain()
