"""A bound that is exceeded: why a stream stops before it commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Bound


class FullError(TerminalError):
    """More would wait than a bound allows."""


def refusal(name: str, bound: Bound, sizes: Mapping[str, Mapping[str, int]], what: str) -> FullError | None:
    """Why a stream has to stop before it commits anything; None: what waits is within the bound."""
    for partition, found in sorted(sizes.items(), key=lambda item: int(item[0])):
        for unit, most in (("records", bound.max_records), ("bytes", bound.max_bytes)):
            if most is not None and found[unit] > most:
                return FullError(
                    f"Node '{name}': {found[unit]:,} {unit} of {what} would wait in partition {partition}; "
                    f"max_{unit} is {most:,}.",
                    detail="Nothing of this micro-batch was committed: with a higher bound the stream goes on from here.",
                    hint=f"Raise max_{unit} (the job set_limits, or headrace set-limits: the stream then goes on by itself) "
                    "or write when_full='spill': the buffer is a table, memory does not bound it.",
                )
    return None
