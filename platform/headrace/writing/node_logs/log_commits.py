"""How long a node waits as of each commit of its logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.description.clocks import WALL
from headrace.description.limits import LIMIT_MS
from headrace.description.suppression import UntilTimeLimit
from headrace.fold.bounds import limits_of_node

if TYPE_CHECKING:
    from headrace.description import Node


def longest_waits(
    node: Node, before_ms: int, at_ms: Sequence[int], limits: Sequence[tuple[int, str]]
) -> list[int]:
    """How long the node waits as of each commit, or has waited before: what waits leaves by the limit in force then.

    Law: it is the longest limit that is described or was set so far, also by a row that the fold may refuse. So it follows
         from the rows one by one, whatever bounds were described and set before.

    In: before_ms  the longest limit that was set before; at_ms: commit times; limits: control rows that set limits
    """
    commits = np.array(at_ms, np.int64)
    longest_ms = np.full(len(commits), max(before_ms, node.longest_wait_ms), np.int64)
    if isinstance(node.suppressed_by, UntilTimeLimit) and node.clock != WALL:
        for set_ms, said in limits:
            limit_ms = (limits_of_node(said, node.required_name) or {}).get(LIMIT_MS) or 0
            longest_ms[commits >= set_ms] = np.maximum(longest_ms[commits >= set_ms], limit_ms)
    found: list[int] = longest_ms.tolist()
    return found
