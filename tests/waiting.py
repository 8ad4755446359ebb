"""Waiting for what another thread, process or server is bound to do, however busy the machine is."""

from __future__ import annotations

from time import monotonic, sleep  # the real ones: a test may set another clock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PATIENCE_S = 300.0  # what takes longer does not come


def until(
    reached: Callable[[], T],
    told: Callable[[], object] = lambda: "it did not come",
    *,
    every_s: float = 0.05,
    patience_s: float = PATIENCE_S,
) -> T:
    """Look until something is true, and return it.

    In: told  what is known, for the failure when it does not come
    """
    deadline = monotonic() + patience_s
    while not (found := reached()):
        assert monotonic() < deadline, told()
        sleep(every_s)
    return found
