"""The limits of a batch, and the deadline that two of them make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Limits:
    """The limits of a batch (see `headrace.description.Batches`); None: no such limit.

    Law: of two batches the one that was opened later has no earlier deadline. So all batches whose deadline a frontier has
         reached were opened at or before one time.
    """

    max_records: int | None
    max_wait_ms: int | None
    max_bytes: int | None
    every_ms: int | None = None

    @property
    def by_time(self) -> bool:
        """Whether a batch has a deadline."""
        return self.max_wait_ms is not None or self.every_ms is not None

    def deadlines_ms(self, opened_ms: np.ndarray) -> np.ndarray:
        """The deadline of each batch; `NEVER` without one. In: opened_ms  commit times of first records."""
        if self.max_wait_ms is not None:
            return np.asarray(opened_ms + self.max_wait_ms)
        if self.every_ms is not None:
            return np.asarray(opened_ms - opened_ms % self.every_ms + self.every_ms)
        return np.full(len(opened_ms), NEVER)

    def opened_through_ms(self, frontier_ms: int) -> int:
        """The latest opening of a batch whose deadline this frontier has reached."""
        if self.max_wait_ms is not None:
            return frontier_ms - self.max_wait_ms
        assert self.every_ms is not None
        return frontier_ms - frontier_ms % self.every_ms - 1
