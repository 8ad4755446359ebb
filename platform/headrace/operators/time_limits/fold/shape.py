"""The facts about a node that the steps of its time limit need, and the states that they share."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.description.clocks import WALL
from headrace.description.suppression import EMIT_EARLY, UntilTimeLimit
from headrace.fold.contract import EVENT, HASH, KEY, OFFSET, PARTITION, SIZE, TOPIC, StateTable, Times
from headrace.fold.keys import newest
from headrace.operators.time_limits.fold.limits_in_force import InForce, in_force
from headrace.operators.time_limits.fold.names import DUE, EXPIRY, OPENED, OPENED_OFFSET, OWN, RECORDS, START
from headrace.operators.time_limits.fold.updates import Updates

GROUP = pa.schema([(TOPIC, pa.string()), (PARTITION, pa.int32()), (KEY, pa.binary()), (HASH, pa.int64())])
CLOCKS = pa.schema([*GROUP, (OWN, pa.int64()), (EXPIRY, pa.int64())])


@dataclass(frozen=True)
class Shape:
    """A time limit of one node.

    name     of the node: control rows that set limits say whose they are
    policy   as described
    updates  what is suppressed
    """

    name: str
    policy: UntilTimeLimit
    updates: Updates

    @property
    def by_wall_clock(self) -> bool:
        """Whether waits go by commit times."""
        return self.policy.clock == WALL

    @property
    def emits_early(self) -> bool:
        """Whether a bound lets the oldest waits leave."""
        return self.policy.bound.when_full == EMIT_EARLY

    def in_force(self, times: Times) -> InForce:
        """The limits in force over a micro-batch."""
        return in_force(self.policy, self.name, times.limits)

    @property
    def entries(self) -> pa.Schema:
        """The values of entries, and their open waits: one row per entry."""
        return pa.schema(
            [
                *self.updates.by,
                *GROUP,
                (START, pa.int64()),
                *self.updates.fields,
                (EVENT, pa.int64()),  # the highest of an aggregate, that of the last record of a table
                (OPENED, pa.int64()),  # null: nothing waits
                (OPENED_OFFSET, pa.int64()),
                *([(DUE, pa.int64())] if self.by_wall_clock else []),  # null: nothing waits
                (OFFSET, pa.int64()),  # of the last update
                (SIZE, pa.int64()),  # of the last update
                (RECORDS, pa.int64()),
            ]
        )


def clocks() -> StateTable:
    """Each partition's own stream time and expiry time."""
    return StateTable(CLOCKS, (HASH,), newest)
