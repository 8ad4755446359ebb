"""Which limits are in force at each row of the log: those described, until a control row says otherwise.

Law: a function of the description and of the control rows up to the row. A control row whose limits the described policy
cannot have alters nothing: what was in force before stays. The row stays, too: a bound that was set counts again once a node
that spilled for a while is described with a bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Set
from dataclasses import dataclass

import numpy as np

from headrace.description.limits import Limits, with_limits
from headrace.description.suppression import SHUT_DOWN, Bound, UntilTimeLimit
from headrace.errors import DescriptionError
from headrace.fold.bounds import limits_of_node


@dataclass(frozen=True)
class InForce:
    """A policy over a stretch of the log.

    begun    as of the stretch's beginning
    changes  from which commit time in ms on, rising, it is another
    """

    begun: UntilTimeLimit
    changes: tuple[tuple[int, UntilTimeLimit], ...]

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
    now, changes = described, []
    for ms, said in rows:
        limits = limits_of_node(said, node)
        changed = None if limits is None else _tried(now, limits)
        if limits is None or changed is None:
            continue
        now = changed
        if ms == 0:
            begun = now
        else:
            changes.append((ms, now))
    return InForce(begun, tuple(changes))


def standing(rows: Iterable[tuple[int, str]], node: str) -> list[tuple[int, str]]:
    """The few rows that stand for the control rows of a node, for `Times.limits` of the next stretch.

    Law: under every policy that the node may be described with, the same is in force after these as after all.
    """
    kept: list[Limits] = []
    for _, said in rows:
        limits = limits_of_node(said, node)
        if limits is not None and _tried(_ALL_BOUNDS, limits) is not None:
            kept = [*_without(kept, limits.keys()), limits] if _only_sets(limits) else [*kept, limits]
    return [standing_row(node, limits) for limits in kept]


def standing_row(node: str, limits: Limits) -> tuple[int, str]:
    """A row of `Times.limits` that stands for control rows before."""
    return 0, json.dumps({"node": node, "limits": dict(limits)}, sort_keys=True)


_ALL_BOUNDS = UntilTimeLimit(1, Bound(1, 1, SHUT_DOWN))  # limits that it cannot have no policy can have


def _only_sets(limits: Limits) -> bool:
    """Whether no bound is removed: their names tell whether a policy can have them, whatever its bounds are."""
    return None not in limits.values()


def _without(kept: list[Limits], names: Set[str]) -> list[Limits]:
    """The rows without those that one with these names sets again, as far as no row since has removed a bound."""
    last = max((place for place, limits in enumerate(kept, 1) if not _only_sets(limits)), default=0)
    return [limits for place, limits in enumerate(kept) if place < last or limits.keys() != names]


def _tried(policy: UntilTimeLimit, limits: Limits) -> UntilTimeLimit | None:
    try:
        changed = with_limits(policy, limits)
    except DescriptionError:
        return None
    assert isinstance(changed, UntilTimeLimit)
    return changed
