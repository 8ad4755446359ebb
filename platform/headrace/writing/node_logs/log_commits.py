"""How long a node waits as of each commit of its logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.description.clocks import WALL
from headrace.description.suppression import UntilTimeLimit
from headrace.operators.time_limits.fold.limits_in_force import in_force

if TYPE_CHECKING:
    from headrace.description import Node


def longest_waits(
    node: Node, before_ms: int, at_ms: Sequence[int], limits: Sequence[tuple[int, str]]
) -> list[int]:
    """How long the node waits as of each commit, or has waited before: what waits leaves by the limit in force then.

    In: before_ms  the longest limit that was set before; at_ms: commit times; limits: control rows that set limits
    """
    longest_ms = np.full(len(at_ms), max(before_ms, node.longest_wait_ms), np.int64)
    policy = node.suppressed_by
    if limits and isinstance(policy, UntilTimeLimit) and node.clock != WALL:
        number, policies = in_force(policy, node.required_name, limits).at(np.array(at_ms, np.int64))
        set_ms = np.array([each.limit_ms for each in policies], np.int64)[number]
        longest_ms = np.maximum.accumulate(np.maximum(longest_ms, set_ms))
    found: list[int] = longest_ms.tolist()
    return found
