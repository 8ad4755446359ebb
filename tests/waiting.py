"""Waiting for what another thread, process or server is bound to do, however busy the machine is."""

from __future__ import annotations

from time import monotonic, sleep  # the real ones: a test may set another clock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PATIENCE_S = 300.0  # what takes longer does not come


def until(
    look: Callable[[], T],
    reached: Callable[[T], object] = bool,
    *,
    told: Callable[[], object] = lambda: "it did not come",
    every_s: float = 0.05,
    patience_s: float = PATIENCE_S,
) -> T:
    """Look until what is seen is as it should be, and return it.

    In: told  what else is known, for the failure when it does not come
    """
    deadline = monotonic() + patience_s
    while not reached(seen := look()):
        assert monotonic() < deadline, (told(), seen)
        sleep(every_s)
    return seen
