"""How far a node has folded its logs: what the commit of its state says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.fold.bounds import Sizes
from headrace.fold.contract import FATE, PARTITION, TOPIC, Clock, Times
from headrace.fold.fates import RECORDS

Fates = Mapping[tuple[str, int, str], int]


@dataclass(frozen=True)
class Progress:
    """How far a node has folded its logs.

    batch   the highest BATCH of the state; -1: nothing has been folded
    clock   where the logs stand
    fates   the number of records by topic, partition and fate, since the beginning
    limits  the rows of `Times.limits` that stand for all control rows so far
    sizes   how much waits in each topic and partition, for an operator with a bound on it
    """

    batch: int = -1
    clock: Clock = field(default_factory=Clock)
    fates: Fates = field(default_factory=dict)
    limits: Sequence[tuple[int, str]] = ()
    sizes: Sizes = field(default_factory=dict)

    def has(self, times: Times) -> bool:
        """Whether an increment was folded before: it takes no log further."""
        return is_within(times.after.upto_ms, self.clock.upto_ms)

    def counted(self, tally: pa.Table) -> Fates:
        """The fates with those of an increment. In: tally  as `fates.TALLY`."""
        fates = dict(self.fates)
        for row in tally.to_pylist():  # one row per topic, partition and fate
            place = (row[TOPIC], row[PARTITION], row[FATE])
            fates[place] = fates.get(place, 0) + row[RECORDS]
        return {place: records for place, records in fates.items() if records}

    @property
    def record(self) -> dict[str, Any]:
        """The same as JSON, for a commit record."""
        return {
            "batch": self.batch,
            "upto": dict(self.clock.upto_ms),
            "stream": [[*place, ms] for place, ms in sorted(self.clock.stream_ms.items())],
            "fates": [[*place, records] for place, records in sorted(self.fates.items())],
            "limits": [list(row) for row in self.limits],
            "sizes": [[*place, *size] for place, size in sorted(self.sizes.items())],
            "complete": sorted(self.clock.complete),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Progress:
        """The inverse of `record`."""
        return cls(
            record["batch"],
            Clock(
                record["upto"],
                {(topic, part): ms for topic, part, ms in record["stream"]},
                frozenset(record.get("complete", ())),
            ),
            {(topic, part, fate): records for topic, part, fate, records in record["fates"]},
            [(ms, said) for ms, said in record["limits"]],
            {(topic, part): (records, size) for topic, part, records, size in record["sizes"]},
        )


def is_within(upto_ms: Mapping[str, int], reached_ms: Mapping[str, int]) -> bool:
    """Whether each log was read as far as that."""
    return all(topic in reached_ms and ms <= reached_ms[topic] for topic, ms in upto_ms.items())
