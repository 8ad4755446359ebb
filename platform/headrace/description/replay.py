"""The replay guard, described: how a topic knows a record that was sent before.

Law: the sequencer judges each record once and writes the verdict into the log, so a guard alters the log of what
comes after it and no node's reading of what stands there. It is no part of a node's fingerprint.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

MONOTONE, EXACT = "monotone", "exact"
MODES = (MONOTONE, EXACT)
MAX_GAPS = 10_000  # intervals of seen positions for each root partition, in exact mode: about 200 KB of state


@dataclass(frozen=True)
class ReplayGuard:
    """Refuses records that a republisher sends a second time; each is kept in the log and marked `replay`.

    In: `header`: name of the record header with the source chain, a JSON list of [topic, partition, offset] or
    [topic, partition, offset, ordinal], root first; the last header of that name counts, as in Kafka's `lastHeader`.
    `mode`: "monotone", for republishers that keep the order: a record is a replay unless its root offset and ordinals
    lie beyond the highest seen on its path; "exact", for those that reorder: unless its root position is new on any path.
    `max_gaps`: exact mode alone: of each root partition at most so many intervals of seen positions are remembered
    (default 10,000). When there are more, the lowest are forgotten and all below them is refused and reported.
    Raises: DescriptionError naming the value and the fix.
    """

    header: str = "source-chain"
    mode: str = MONOTONE
    max_gaps: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.header, str) or not self.header:
            raise DescriptionError(
                f"ReplayGuard: header {a_value(self.header)} is not the name of a record header.",
                hint="Give its name, such as 'source-chain'.",
            )
        if self.mode not in MODES:
            raise DescriptionError(
                f"ReplayGuard: mode {a_value(self.mode)} does not exist; modes are {listed(MODES)}."
            )
        if self.max_gaps is None:
            return
        if self.mode != EXACT:
            raise DescriptionError(
                f"ReplayGuard: max_gaps {a_value(self.max_gaps)} bounds the exact mode; mode is '{self.mode}'.",
                hint="Leave it out, or give mode='exact'.",
            )
        if not isinstance(self.max_gaps, int) or isinstance(self.max_gaps, bool) or self.max_gaps < 1:
            raise DescriptionError(
                f"ReplayGuard: max_gaps {a_value(self.max_gaps)} is not a whole number above 0.",
                hint=f"Leave it out for {MAX_GAPS:,}.",
            )

    @property
    def gaps_max(self) -> int:
        """The bound of the exact mode."""
        return MAX_GAPS if self.max_gaps is None else self.max_gaps
