"""Pauses of single nodes: a person lets one node of a running stream rest while the others go on.

Requests for nodes (see `headrace.writing.leases.handover`) lie in the same folder.

A pause is a file of the lake, and so outlives the stream that it rests in. It is no part of a log: no row depends on when a
node folds what stands there. While a node rests its logs grow, and it catches up afterwards.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.lake import small_files
from headrace.lake.notices import Names

if TYPE_CHECKING:
    from headrace.lake.paths import Lake

SUFFIX, HANDOVER = ".json", ".handover"


def pause(lake: Lake, node: str) -> None:
    """Let a node rest until `resume`; a stream that runs ends the node's micro-batch, and begins no other."""
    small_files.write_json(lake.paused(node), {"paused_at_ms": time.time_ns() // 1_000_000})


def resume(lake: Lake, node: str) -> bool:
    """Let a node go on; False if it did not rest."""
    rested = small_files.exists(lake.paused(node))
    small_files.delete(lake.paused(node))
    return rested


@dataclass(frozen=True)
class Wishes:
    """The requests of people and commands to a running stream.

    paused  the nodes that are to rest
    asked   the nodes that somebody asks the stream for
    """

    paused: frozenset[str]
    asked: frozenset[str]


def wishes(lake: Lake, names: Names = small_files.names) -> Wishes:
    """Those that the lake has."""
    files = names(lake.paused("").rpartition("/")[0])
    paused, asked = (
        frozenset(name.removesuffix(suffix) for name in files if name.endswith(suffix))
        for suffix in (SUFFIX, HANDOVER)
    )
    return Wishes(paused, asked)
