"""Running aggregates once more, in plain Python: the totals that a log has to lead to.

Nothing here is shared with the engine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.log_oracle import Arrival, Commit, Log
from tests.oracle.windows_oracle import aggregates, unusable

KEPT_ITEMS = 3


@dataclass
class Totals:
    """`rows` by key; `fates`: (partition, fate) of each arrival."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    fates: Counter[tuple[int, str]] = field(default_factory=Counter)


def totals(log: Log, commits: Sequence[Commit]) -> Totals:
    """Every usable record counts; the log's order is that of its commits, and within one of partition and offset."""
    result, groups = Totals(), defaultdict[str, list[Arrival]](list)
    numbers = [number for number, commit in enumerate(commits) for _ in commit.arrivals]
    rows = zip(numbers, log.rows, strict=True)
    for _, (arrival, _, _) in sorted(rows, key=lambda row: (row[0], row[1][0].partition, row[1][1])):
        fate = unusable(arrival, lambda value: True) or "used"
        result.fates[arrival.partition, fate] += 1
        if fate == "used":
            groups[str(arrival.key)].append(arrival)
    for key, arrivals in groups.items():
        values = [arrival.value for arrival in arrivals]
        known = [value for value in values if value is not None]
        result.rows[key] = aggregates(arrivals) | {
            "oldest": values[0], "newest": values[-1], "some": known[:KEPT_ITEMS],
        }  # fmt: skip
    return result


@dataclass
class Placed:
    """`rows` by key, with the place of the last record; `fates`: (topic, partition, fate) of each arrival."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    fates: Counter[tuple[str, int, str]] = field(default_factory=Counter)


def totals_of(logs: Sequence[tuple[str, Log]]) -> Placed:
    """Totals over the logs of several topics, in the order of commit time, topic, partition and offset."""
    result, groups = Placed(), defaultdict[str, list[tuple[Any, ...]]](list)
    for topic, log in logs:
        for at, (arrival, offset, _) in zip(log.ingested, log.rows, strict=True):
            fate = unusable(arrival, lambda value: True) or "kept"
            result.fates[topic, arrival.partition, fate] += 1
            if fate == "kept":
                place = (at, topic, arrival.partition, offset)
                groups[str(arrival.key)].append((place, arrival))
    for key, found in groups.items():
        found.sort(key=lambda each: (each[0][0], each[0][1].encode(), *each[0][2:]))
        arrivals = [arrival for _, arrival in found]
        values = [arrival.value for arrival in arrivals]
        result.rows[key] = aggregates(arrivals) | {
            "oldest": values[0],
            "newest": values[-1],
            "some": [value for value in values if value is not None][:KEPT_ITEMS],
            "place": found[-1][0],
        }
    return result
