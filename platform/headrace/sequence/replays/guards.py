"""Which guard a topic has, and its state as JSON.

Law: a guard's state after a commit is a function of the state before it and of the commit's records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.description.replay import MONOTONE, ORDER, ReplayGuard
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.replays.monotone import MonotoneGuard

Guard = MonotoneGuard | ExactGuard


def new_guard(described: ReplayGuard | None) -> Guard | None:
    """A guard before its first record; None without one."""
    if described is None:
        return None
    if described.mode == MONOTONE:
        return MonotoneGuard(runs={} if described.ordinals == ORDER else None)
    return ExactGuard(gaps_max=described.gaps_max)


def restored_guard(described: ReplayGuard | None, document: Mapping[str, Any] | None) -> Guard | None:
    """The guard whose state a commit recorded; None if there is none, or it is of another mode.

    In: document  as `to_json` of a guard wrote it
    """
    if described is None or document is None or document["mode"] != described.mode:
        return None
    if described.mode == MONOTONE:
        guard = MonotoneGuard.from_json(document)
        return replace(guard, runs=(guard.runs or {}) if described.ordinals == ORDER else None)
    return ExactGuard.from_json(document, described.gaps_max)
