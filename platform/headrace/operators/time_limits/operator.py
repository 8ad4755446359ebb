"""Time limits: a key's value leaves once it has waited so long."""

from __future__ import annotations

from headrace.description import Suppressed
from headrace.fold.contract import KEY, OFFSET, PARTITION
from headrace.operators.contract import Appended


class TimeLimits(Appended[Suppressed]):
    """One row for each wait of a key that is over."""

    @property
    def order(self) -> tuple[str, ...]:
        """By the record at which the wait is over."""
        return (PARTITION, OFFSET, "__sub", "__opened_ms", KEY, "window_start")
