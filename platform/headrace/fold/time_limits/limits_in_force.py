"""Which limits are in force at each row of the log: those described, until a control row says otherwise.

Law: a function of the description and of the control rows up to the row. A control row whose limits the described policy
cannot have alters nothing: what was in force before stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from headrace.description.limits import Limits, with_limits
from headrace.description.suppression import UntilTimeLimit
from headrace.errors import DescriptionError


@dataclass(frozen=True)
class InForce:
    """A policy over a stretch of the log.

    begun    as of the stretch's beginning
    changes  from which commit time in ms on, rising, it is another
    altered  the limits that were set up to its end, in place of those described
    """

    begun: UntilTimeLimit
    changes: tuple[tuple[int, UntilTimeLimit], ...]
    altered: Limits

    @property
    def last(self) -> UntilTimeLimit:
        """As of the stretch's end."""
        return self.changes[-1][1] if self.changes else self.begun

    def at(self, ingested_ms: np.ndarray) -> tuple[np.ndarray, list[UntilTimeLimit]]:
        """For the commit time of each row the number of the policy in force; and the policies by number."""
        begins = np.array([ms for ms, _ in self.changes], np.int64)
        number = np.searchsorted(begins, ingested_ms, side="right")
        return number, [self.begun, *(policy for _, policy in self.changes)]


def in_force(described: UntilTimeLimit, node: str, rows: Iterable[tuple[int, str]]) -> InForce:
    """The limits in force over a stretch of the log.

    In: node  the name of the node; rows: see `Times.limits`
    """
    begun: UntilTimeLimit = described
    altered: Limits = {}
    now, changes = described, []
    for ms, said in rows:
        limits = limits_of_node(said, node)
        changed = None if limits is None else _tried(now, limits)
        if limits is None or changed is None:
            continue
        now, altered = changed, {**altered, **limits}
        if ms == 0:
            begun = now
        else:
            changes.append((ms, now))
    return InForce(begun, tuple(changes), altered)


def limits_of_node(said: str, node: str) -> Mapping[str, int | None] | None:
    """The limits that a control row sets for a node; None: it is another's. In: the row's JSON."""
    entry = json.loads(said)
    return entry["limits"] if entry.get("node") == node else None


def standing(in_force_now: InForce, node: str) -> list[tuple[int, str]]:
    """The rows that stand for all control rows up to a stretch's end, for `Times.limits` of the next stretch."""
    if not in_force_now.altered:
        return []
    return [(0, json.dumps({"node": node, "limits": dict(in_force_now.altered)}, sort_keys=True))]


def _tried(policy: UntilTimeLimit, limits: Limits) -> UntilTimeLimit | None:
    try:
        changed = with_limits(policy, limits)
    except DescriptionError:
        return None
    assert isinstance(changed, UntilTimeLimit)
    return changed
