"""Nodes of every kind for the laws of the kernel, and the worlds that they read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import headrace as hr
from headrace.description import Node
from tests.laws.kernel.logs import SECOND
from tests.laws.kernel.own_aggregates import Pairs, Shown, Span
from tests.laws.kernel.reading import Computed


@dataclass(frozen=True)
class Subject:
    """A node under test.

    changes   whether each change of its rows is wanted, too
    computed  what SQL computes of it
    """

    name: str
    node: Node
    changes: bool = False
    computed: Computed | None = None

    def __repr__(self) -> str:
        return self.name


DOUBLES = (
    None, 0.1, 0.2, 0.7, -0.0, 0.0, 5e-7, 1.5e-6, -5e-7, 2.675, 1e15 + 0.1, -1e15, 1e21, 1e22, 1e300, math.nan, -math.inf,
)  # fmt: skip


def double(number: int) -> Any:
    """Odd ones, and plain ones with many digits."""
    return DOUBLES[number] if number < len(DOUBLES) else (number - 48) * 1234.5678901 / 7


def whole(number: int) -> Any:
    """Null, small numbers, and large ones."""
    return None if not number else number - 8 if number < 40 else (number - 60) * 987_654_321_013


def small(number: int) -> Any:
    """Null, and numbers that are often equal."""
    return None if not number % 12 else number % 12 - 6


def decimal(number: int) -> Any:
    """DECIMAL(12, 3)."""
    return None if not number else Decimal((number - 40) ** 5 % 10**9 - 10**8).scaleb(-3)


def array(number: int) -> Any:
    """Null, and up to three numbers or nulls."""
    return None if not number % 7 else [small(number * 5 + place) for place in range(number % 4)]


def topic(name: str, value: str = "value BIGINT", key: str = "key STRING") -> Any:
    return hr.Topic(name, key=key, value=value)


# Each node has some of these: together they have all.
TOTALS: list[dict[str, Any]] = [
    {"n": hr.count(), "total": hr.sum("value"), "oldest": hr.first("value")},
    {"known": hr.count("value"), "mean": hr.avg("value"), "lowest": hr.min("value")},
    {"n": hr.count(), "spread": hr.stddev("value"), "newest": hr.last("value")},
    {"total": hr.sum("value"), "highest": hr.max("value"), "some": hr.collect("value", max_items=3)},
    {"n": hr.count(), "squares": hr.variance("value")},
]
T = topic("t")
U = replace(topic("u"), format=hr.Number("int64"))  # the driver writes its values so


def windowed(
    name: str, stream: Any, of: int, size: int, advance: int, grace: int, *, suppressed: bool
) -> Subject:
    window = hr.hopping(size * SECOND, advance * SECOND)
    made = stream.group_by("key").window(window, grace=grace * SECOND).aggregate(**TOTALS[of])
    made = made.suppress(hr.until_window_closes()) if suppressed else made
    return Subject(name, made.named(name))


def window_subjects(one: Any, both: Any) -> list[Subject]:
    return [
        windowed("tumbling", one, 0, 10, 10, 0, suppressed=True),
        windowed("tumbling_late", both, 1, 6, 6, 5, suppressed=False),
        windowed("hopping", one, 2, 10, 5, 3, suppressed=False),
        windowed("uneven", both, 3, 10, 4, 0, suppressed=True),
        windowed("many_windows", one, 4, 9, 2, 2, suppressed=True),
        windowed("one_by_one", both, 0, 7, 1, 1, suppressed=False),
    ]


def sliding_subjects() -> list[Subject]:
    made = []
    for of, difference, grace in ((1, 5 * SECOND, 3 * SECOND), (4, 3 * SECOND, 0), (2, 1_500, 12 * SECOND)):
        windows = T.group_by().window(hr.sliding(difference), grace=grace).aggregate(**TOTALS[of])
        made.append(Subject(f"sliding_{difference}", windows.named("sliding")))
    return made


def session_subjects() -> list[Subject]:
    made = []
    for of, gap, grace in ((0, SECOND, 3 * SECOND), (2, 2 * SECOND, 0), (3, 1_500, 12 * SECOND)):
        windows = T.group_by().window(hr.session(gap), grace=grace).aggregate(**TOTALS[of])
        made.append(Subject(f"session_{gap}_{grace}", windows.named("sessions")))
    return made


def session_change_subjects() -> list[Subject]:
    """The changes of sessions, commit by commit."""
    made = []
    for of, gap, grace in ((0, SECOND, 3 * SECOND), (2, 2 * SECOND, 0), (3, 1_500, 12 * SECOND)):
        windows = T.group_by().window(hr.session(gap), grace=grace).aggregate(**TOTALS[of])
        made.append(Subject(f"session_changes_{gap}_{grace}", windows.changes().named("changes")))
    return made


def sliding_change_subjects() -> list[Subject]:
    """The changes of sliding windows, commit by commit; those of two topics have records of both."""
    made = []
    for of, stream, difference, grace in (
        (1, T, 5 * SECOND, 3 * SECOND),
        (2, T.merge(U), 3 * SECOND, 0),
        (3, T, 1_500, 12 * SECOND),
        (4, T.merge(U), 4 * SECOND, 2 * SECOND),
    ):
        windows = stream.group_by("key").window(hr.sliding(difference), grace=grace)
        made.append(
            Subject(
                f"sliding_changes_{difference}", windows.aggregate(**TOTALS[of]).changes().named("changes")
            )
        )
    return made


def stream_subjects() -> list[Subject]:
    return [
        Subject(f"stream_of_{number}", stream.named("stream"))
        for number, stream in enumerate((T, T.merge(U)), 1)
    ]


def flat_map_subjects() -> list[Subject]:
    one, other = (topic(name, "value ARRAY<BIGINT>") for name in "tu")
    return [
        Subject(f"flat_map_of_{number}", stream.flat_map("value", ordinal=ordinal).named("elements"))
        for number, (stream, ordinal) in enumerate(((one, "n"), (one.merge(other), None)), 1)
    ]


def batch_subjects() -> list[Subject]:
    limits: list[dict[str, Any]] = [
        {"max_records": 1},
        {"max_records": 3},
        {"max_wait": "1 ms"},
        {"max_wait": "2 seconds"},
        {"max_records": 2, "max_wait": "61 seconds"},
        {"max_bytes": 13},
        {"every": "2 seconds"},
        {"max_records": 3, "every": "7 seconds"},
        {"max_records": 4, "max_bytes": 20, "max_wait": "7 seconds"},
    ]
    made = []
    for each in limits:
        for number, stream in enumerate((T.stream, T.merge(U)), 1):
            node = stream.group_by("key").batch(collect=["value", "key"], **each).named("batches")
            made.append(Subject(f"batches_{'_'.join(each)}_of_{number}", node))
    return made


def total_subjects(one: Any, both: Any) -> list[Subject]:
    grouped, merged = one.group_by("key"), both.group_by("key")
    return [
        *(Subject(f"totals_{n}", grouped.aggregate(**of).named("totals")) for n, of in enumerate(TOTALS)),
        Subject("totals_of_two", merged.aggregate(**TOTALS[3]).named("totals")),
        Subject("changes_of_totals", merged.aggregate(**TOTALS[0]).named("totals"), changes=True),
    ]


def limited(name: str, limit: int, made: Any, **bound: Any) -> Subject:
    policy = hr.until_time_limit(limit, **bound, when_full="emit_early" if bound else "spill")
    return Subject(name, made.suppress(policy).named("limited"))


def limit_subjects() -> list[Subject]:
    grouped = T.group_by()
    totals = grouped.aggregate(**TOTALS[0])
    long = grouped.window(hr.hopping("8 seconds", "3 seconds"), grace="2 seconds").aggregate(**TOTALS[3])
    short = grouped.window(hr.hopping("6 seconds", "4 seconds"), grace="1 second").aggregate(**TOTALS[2])
    return [
        limited("rows", 3 * SECOND, T.table()),
        limited("kept_rows", 3 * SECOND, T.table().where("value > 0")),
        limited("totals", 4 * SECOND, totals),
        limited("at_once", 0, totals),
        limited("overlapping", 5 * SECOND, long),
        limited("few_rows", 60 * SECOND, T.table(), max_records=3),
        limited("few_windows", 6 * SECOND, short, max_records=2),
        limited("small", 8 * SECOND, grouped.aggregate(**TOTALS[1]), max_bytes=40),
    ]


def own_subjects() -> list[Subject]:
    """What users write, in windows, totals, and a time limit."""
    own: dict[str, Any] = {
        "span": Span().of("value"),
        "n": hr.count(),
        "pairs": Pairs(4).of("key", "value"),
        "shown": Shown().of("value"),
    }
    grouped = T.group_by()
    windows = grouped.window(hr.hopping("9 seconds", "4 seconds"), grace="2 seconds").aggregate(**own)
    sessions = grouped.window(hr.session("2 seconds"), grace="3 seconds").aggregate(**own)
    sliding = grouped.window(hr.sliding("3 seconds"), grace="3 seconds").aggregate(**own)
    totals = grouped.aggregate(**own)
    return [
        Subject("own_windows", windows.suppress(hr.until_window_closes()).named("windows")),
        Subject("own_sessions", sessions.named("sessions")),
        Subject("own_sliding", sliding.named("sliding")),
        Subject("own_totals", totals.named("totals")),
        Subject("own_totals_changes", totals.named("totals"), changes=True),
        Subject("own_limited", totals.suppress(hr.until_time_limit(4 * SECOND)).named("limited")),
    ]


def wall_subjects(one: Any, both: Any) -> list[Subject]:
    """Windows and time limits by the wall clock."""
    made = []
    for number, (stream, size, advance) in enumerate(
        ((one, 5, 5), (both, 61, 20), (both, 7, 3), (one, 2, 1))
    ):
        windows = stream.group_by("key").window(hr.hopping(size * SECOND, advance * SECOND), clock="wall")
        totals = windows.aggregate(**TOTALS[number])
        final = totals.suppress(hr.until_window_closes()) if number % 2 else totals
        made.append(Subject(f"wall_windows_{size}", final.named("windows")))
    grouped = T.group_by()
    overlapping = grouped.window(hr.hopping("8 seconds", "3 seconds"), grace="2 seconds").aggregate(
        **TOTALS[3]
    )
    by_wall = grouped.window(hr.hopping("7 seconds", "3 seconds"), clock="wall").aggregate(**TOTALS[2])
    for name, limit, of in (
        ("wall_rows", 3 * SECOND, T.table()),
        ("wall_totals", 6 * SECOND, grouped.aggregate(**TOTALS[0])),
        ("wall_at_once", 0, grouped.aggregate(**TOTALS[1])),
        ("wall_overlapping", 2 * SECOND, overlapping),
        ("wall_limited", 4 * SECOND, by_wall),
    ):
        made.append(Subject(name, of.suppress(hr.until_time_limit(limit, clock="wall")).named("limited")))
    return [
        *made,
        limited("wall_windows", 5 * SECOND, by_wall),
        limited("few_wall", 6 * SECOND, by_wall, max_records=2),
    ]


def limits_set() -> list[str]:
    """What people may ask for, also what a node cannot have, and what is another node's."""
    values: dict[str, list[int | None]] = {
        "limit_ms": [-SECOND, 0, 2 * SECOND, 5 * SECOND, 20 * SECOND, 90 * SECOND],
        "max_records": [0, None, 1, 2, 4, 50],
        "max_bytes": [0, None, 15, 60, 500],
    }
    found = [{name: value} for name, some in values.items() for value in some]
    found += [{"limit_ms": 2 * SECOND, "max_records": 2}, {"max_records": None, "max_bytes": 60}]
    said = [("limited", limits) for limits in found] + [("other", {"limit_ms": 0})]
    return [json.dumps({"action": "set_limits", "node": node, "limits": limits}) for node, limits in said]
