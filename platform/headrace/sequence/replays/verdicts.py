"""What a guard decides about records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

AMBIGUOUS = "ambiguous_chain"
AMBIGUOUS_REASON = (
    f"{AMBIGUOUS}: a record with this source chain was taken before, and it has other bytes. "
    "Number the outputs of an input by ordinals in the chain"
)


@dataclass(frozen=True)
class Verdicts:
    """One of each record.

    replay     it was taken before
    ambiguous  another record was taken at its position, so its chain does not tell the two apart
    """

    replay: np.ndarray
    ambiguous: np.ndarray

    @classmethod
    def none(cls, rows: int) -> Verdicts:
        """All records are taken."""
        return cls(np.zeros(rows, bool), np.zeros(rows, bool))
