"""The grace of a windowed node, and the least grace with which each of its records counts.

Law: row by row, of event time and stream time alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from headrace.description import SessionWindows, SlidingWindows, WindowedAggregate
from headrace.description.clocks import WALL
from headrace.errors import DescriptionError
from headrace.fold.windows.panes import panes_of

if TYPE_CHECKING:
    from headrace.description import Node


def with_grace(node: Node, grace_ms: int | None = None) -> WindowedAggregate:
    """A windowed node without its sinks. In: grace_ms  another grace; None: its own.

    Raises: DescriptionError when no grace decides which records count in a window of the node
    """
    if not isinstance(node, WindowedAggregate) or node.clock == WALL:
        raise DescriptionError(
            f"Node '{node.required_name}' has no windows of event time, so it has no grace.",
            hint="Name a node with .window(…, grace=…).",
        )
    return replace(node, sinks=(), grace_ms=node.grace_ms if grace_ms is None else grace_ms)


def is_windowed(node: Node) -> bool:
    """True if a grace decides which records count in a window of the node."""
    return isinstance(node, WindowedAggregate) and node.clock != WALL


def first_ends(node: WindowedAggregate, event_ms: np.ndarray) -> np.ndarray:
    """The end of the first window of each record; of a session the moment at which it ends if no other record comes."""
    if isinstance(node.window, SessionWindows):
        return np.asarray(event_ms + node.window.gap_ms)
    if isinstance(node.window, SlidingWindows):
        return event_ms
    panes = panes_of(node.window, 0)
    ends: np.ndarray = panes.end(panes.first_start(event_ms))
    return ends


def least_grace_ms(node: WindowedAggregate, event_ms: np.ndarray, stream_ms: np.ndarray) -> np.ndarray:
    """The least grace with which each record counts in all of its windows.

    A record of a session counts with less if its session is open for another reason.
    """
    return np.asarray(np.maximum(stream_ms - first_ends(node, event_ms) + 1, 0))
