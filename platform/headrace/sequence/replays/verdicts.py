"""The verdicts of a guard about records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.sequence.replays.chains import Chains

AMBIGUOUS = "ambiguous_chain"
AMBIGUOUS_REASON = (
    f"{AMBIGUOUS}: a record with this source chain was taken before, and it has other bytes. "
    "Number the outputs of an input by ordinals in the chain, or give the guard ordinals='order'"
)


@dataclass(frozen=True)
class Verdicts:
    """One of each record.

    chains     as the guard numbers them
    replay     it was taken before
    ambiguous  another record was taken at its position, so its chain does not tell the two apart
    """

    chains: Chains
    replay: np.ndarray
    ambiguous: np.ndarray

    @classmethod
    def none(cls, chains: Chains) -> Verdicts:
        """All records are taken."""
        rows = len(chains.hops)
        return cls(chains, np.zeros(rows, bool), np.zeros(rows, bool))
