"""Random well-typed pipelines: each operator reads an earlier stream, and some read a second one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import headrace as hr
from headrace.description import Node, WindowedAggregate, is_of_kafka, with_unnamed
from tests.laws.kernel.global_table_subjects import Finds
from tests.laws.kernel.logs import SECOND
from tests.laws.kernel.processor_subjects import Count, Sums

Stream = Any
Choose = Callable[[Sequence[Any]], Any]  # one of some
Step = Callable[[Choose, Stream, Stream], Any]


def windows(choose: Choose, stream: Stream, other: Stream) -> Any:
    size, advance = choose([(10, 10), (6, 6), (10, 5), (7, 3)])
    return closed(choose, stream, hr.hopping(size * SECOND, advance * SECOND))


def sessions(choose: Choose, stream: Stream, other: Stream) -> Any:
    return closed(choose, stream, choose([hr.session(2 * SECOND), hr.sliding(3 * SECOND)]))


def sessions_by_value(choose: Choose, stream: Stream, other: Stream) -> Any:
    """By another key, whose records lie in several partitions."""
    made = stream.key_by("value").group_by().window(hr.session(2 * SECOND), grace=3 * SECOND)
    totals = made.aggregate(key=hr.max("key"), n=hr.count())
    return totals.suppress(hr.until_window_closes())


def whole(choose: Choose, stream: Stream, other: Stream) -> Any:
    """Windows of the whole stream, which is one group."""
    window = choose([hr.tumbling(6 * SECOND), hr.hopping(10 * SECOND, 5 * SECOND)])
    made = stream.window(window, grace=choose([0, 3 * SECOND]))
    return made.aggregate(key=hr.max("key"), n=hr.count()).suppress(hr.until_window_closes())


def whole_batches(choose: Choose, stream: Stream, other: Stream) -> Any:
    limits: list[dict[str, Any]] = [{"max_records": 3}, {"max_bytes": 20}]
    limits += [{"max_records": 4, "max_wait": "2 seconds"}, {"every": "3 seconds"}]
    return stream.batch(collect=["key", "value"], **choose(limits))


def whole_totals(choose: Choose, stream: Stream, other: Stream) -> Any:
    return stream.aggregate(n=hr.count(), newest=hr.last("value"))


def rekeyed_table(choose: Choose, stream: Stream, other: Stream) -> Any:
    return stream.key_by("value").table()


def reaches(choose: Choose, stream: Stream, other: Stream) -> Any:
    """The record with which the count or the sum of a group reaches a number."""
    grouped, number, order = stream.group_by("key"), choose([1, 2, 4]), choose(["log", "time"])
    if choose([False, True]):
        windowed = grouped.window(hr.hopping("9 seconds", "3 seconds"), grace="2 seconds")
        return windowed.reaches(number, order=order)
    return grouped.reaches(number, hr.sum("value"), order=order)


def closed(choose: Choose, stream: Stream, window: Any) -> Any:
    made = stream.group_by("key").window(window, grace=choose([0, 3 * SECOND]))
    return made.aggregate(n=hr.count(), total=hr.sum("value")).suppress(hr.until_window_closes())


def batches(choose: Choose, stream: Stream, other: Stream) -> Any:
    limits: list[dict[str, Any]] = [{"max_records": 2}, {"max_wait": "2 seconds"}, {"max_bytes": 20}]
    limits.append({"max_records": 3, "every": "2 seconds"})
    return stream.group_by("key").batch(collect=["value"], **choose(limits))


def lookup(choose: Choose, stream: Stream, other: Stream) -> Any:
    found = other.select("key", "value AS other").table()
    as_of, first = choose(["log", "event"]), choose([False, True])
    first = first and all(map(is_of_kafka, found.topics))
    return stream.lookup(found, on="key", as_of=as_of, complete_first=first)


def waits(choose: Choose, stream: Stream, other: Stream) -> Any:
    totals = stream.group_by("key").aggregate(n=hr.count(), newest=hr.last("value"))
    return totals.suppress(hr.until_time_limit(choose([0, 4 * SECOND])))


def waits_by_wall_clock(choose: Choose, stream: Stream, other: Stream) -> Any:
    totals = stream.group_by("key").aggregate(n=hr.count(), newest=hr.last("value"))
    return totals.suppress(hr.until_time_limit(choose([3, 5, 1]) * SECOND, clock="wall"))


def joined(choose: Choose, stream: Stream, other: Stream) -> Any:
    how = choose(["inner", "left", "outer"])
    second = other.select("key", "value AS other")
    return stream.join(second, on="key", within="4 seconds", grace="2 seconds", how=how)


def merged(choose: Choose, stream: Stream, other: Stream) -> Any:
    return stream.merge(other).group_by("key").batch(collect=["value"], max_records=3)


def branches(choose: Choose, stream: Stream, other: Stream) -> Any:
    """Two branches of one stream."""
    return stream.select("key", "value").merge(stream.select("key", "value"))


def distinct(choose: Choose, stream: Stream, other: Stream) -> Any:
    within, grace = choose([(3, None), (9, 1), (1, 6)])
    return stream.distinct("key", within=within * SECOND, grace=None if grace is None else grace * SECOND)


def flattened(choose: Choose, stream: Stream, other: Stream) -> Any:
    made = stream.group_by("key").window(hr.tumbling(6 * SECOND), grace=choose([0, 3 * SECOND]))
    values = made.aggregate(some=hr.collect("value", 3)).suppress(hr.until_window_closes())
    return values.as_stream().flat_map("some AS found", ordinal="place")


def processed(choose: Choose, stream: Stream, other: Stream) -> Any:
    grouped = stream.group_by("key") if choose([False, True]) else stream
    output, store = "key STRING, n BIGINT, value BIGINT", hr.value_store("count", "n BIGINT")
    return grouped.process(Count, output=output, stores=[store])


def with_previous(choose: Choose, stream: Stream, other: Stream) -> Any:
    order = choose([{}, {"order": "time"}, {"order": "time", "grace": "2 seconds"}])
    grouped = stream.select("key", "value AS read").group_by("key")
    return grouped.with_previous(before="read", value=hr.increase("read"), **order)


def looked_up(choose: Choose, stream: Stream, other: Stream) -> Any:
    """A processor that reads a table of another stream, or totals of it, as a global table."""
    is_grouped = choose([False, True])
    grouped = stream.group_by("key") if is_grouped else stream
    table = choose([other.table(), other.group_by("key").aggregate(value=hr.max("value"), n=hr.count())])
    waits: dict[str, Any] = {"stream_wait": "3 seconds", "wall_wait": "2 seconds"}
    waits |= {"order": "log"} if is_grouped else {}
    first = choose([False, True]) and all(map(is_of_kafka, hr.global_table("others", table).topics))
    others = hr.global_table("others", table, complete_first=first)
    return grouped.process(Finds, output="key STRING, n BIGINT, found BIGINT", stores=[others], **waits)


def summed(choose: Choose, stream: Stream, other: Stream) -> Any:
    clock, wait = choose([("stream", "stream_wait"), ("wall", "wall_wait")])
    output, store = (
        "at TIMESTAMP, key BIGINT, value BIGINT, stream TIMESTAMP",
        hr.key_value_store("sums", "k BIGINT", "n BIGINT"),
    )
    order = choose(["log", "time"])
    waits: dict[str, Any] = {wait: "3 seconds", "order": order}
    return stream.group_by("key").process(
        partial(Sums, "3 seconds", clock), output=output, stores=[store], **waits
    )


def totals(choose: Choose, stream: Stream, other: Stream) -> Any:
    return stream.group_by("key").aggregate(n=hr.count(), total=hr.sum("value"))


def throttled(choose: Choose, stream: Stream, other: Stream) -> Any:
    """Sinks get the newest row of each key alone."""
    return choose([totals, tables, regrouped])(choose, stream, other).throttle(
        choose(["1 second", "1 minute"])
    )


def tables(choose: Choose, stream: Stream, other: Stream) -> Any:
    how = choose(["inner", "left", "outer"])
    return stream.table().join(other.select("key", "value AS other").table(), on="key", how=how)


def regrouped(choose: Choose, stream: Stream, other: Stream) -> Any:
    return stream.table().group_by("value").aggregate(n=hr.count())


def named_stream(choose: Choose, stream: Stream, other: Stream) -> Any:
    return stream.where("value IS NULL OR value <> 3")


def calendar_windows(choose: Choose, stream: Stream, other: Stream) -> Any:
    return closed(choose, stream, hr.calendar(choose(["day", "week"]), zone="Europe/Athens"))


def wall_windows(choose: Choose, stream: Stream, other: Stream) -> Any:
    size, advance = choose([(4, 4), (6, 2)])
    made = stream.group_by("key").window(hr.hopping(size * SECOND, advance * SECOND), clock="wall")
    return made.aggregate(n=hr.count()).suppress(hr.until_window_closes())


def changes(choose: Choose, stream: Stream, other: Stream) -> Any:
    return stream.group_by("key").aggregate(value=hr.max("value"), n=hr.count()).changes()


def changes_of_table(choose: Choose, stream: Stream, other: Stream) -> Any:
    """A record where a row of a table changes or goes."""
    joined_rows = stream.table().join(other.select("key", "value AS other").table(), on="key", how="left")
    return choose([stream.table(), joined_rows]).changes()


def calm_table(choose: Choose, stream: Stream, other: Stream) -> Any:
    second = other.select("key", "value AS other").table()
    limits: list[dict[str, Any]] = [{}, {"clock": "wall"}, {"max_records": 1, "when_full": "emit_early"}]
    joined_rows = stream.table().join(second, on="key", how=choose(["inner", "left", "outer"]))
    return joined_rows.suppress(hr.until_time_limit(choose([0, 4 * SECOND]), **choose(limits)))


def refined(choose: Choose, stream: Stream, other: Stream) -> Any:
    return tables(choose, stream, other).where("other IS NOT NULL")


GOING_ON: dict[str, tuple[Step, str]] = {  # each with what becomes the value of the stream that goes on
    "windows": (windows, "n"),
    "windows of totals": (windows, "total"),
    "sessions": (sessions, "n"),
    "sessions by another key": (sessions_by_value, "n"),
    "windows of a whole stream": (whole, "n"),
    "batches": (batches, "records"),
    "batches of a whole stream": (whole_batches, "records"),
    "lookup": (lookup, "other"),
    "time limit": (waits, "newest"),
    "join of streams": (joined, "other"),
    "merged batches": (merged, "records"),
    "flat map": (flattened, "found"),
    "distinct": (distinct, "value"),
    "merged branches": (branches, "value"),
    "processor": (processed, "n"),
    "previous values": (with_previous, "before"),
    "reaches": (reaches, "reached"),
    "increases": (with_previous, "value"),
    "processor of a table": (looked_up, "found"),
}
ENDS: dict[str, Step] = {
    "totals": totals,
    "processor with timers": summed,
    "join of tables": tables,
    "grouped table": regrouped,
    "table by another key": rekeyed_table,
    "totals of a whole stream": whole_totals,
    "throttled table": throttled,
}
ON_A_LAKE: dict[str, tuple[Step, str]] = {  # beside those: what the kernel's laws do not read by themselves
    "named stream": (named_stream, "value"),
    "calendar windows": (calendar_windows, "n"),
    "windows of the wall clock": (wall_windows, "n"),
    "time limit of the wall clock": (waits_by_wall_clock, "newest"),
    "changes": (changes, "value"),
    "changes of a table": (changes_of_table, "value"),
    "calm table": (calm_table, "value"),
    "refined table": (refined, ""),
}
ON_RECORD_KEYS = {
    "lookup",
    "processor of a table",
    "join of streams",
    "join of tables",
    "grouped table",
    "changes of a table",
    "calm table",
    "refined table",
    "throttled table",
}  # of windows and batches it is another one
KINDS = GOING_ON | ON_A_LAKE | {kind: (step, "") for kind, step in ENDS.items()}


class Pipeline:
    """A pipeline that grows. Each operator reads the stream before it, or one that is chosen; some read another one, too.

    nodes    each after those that it reads, with the steps without a name
    """

    def __init__(self, *topics: Stream) -> None:
        """In: topics  streams with the columns `key` and `value`; the last one is read first."""
        self.nodes: list[Node] = []
        self._streams, self._keyed = [*topics], [*topics]  # keyed: by their column `key`

    def add(
        self, kind: str, choose: Choose, name: str, *, anywhere: bool = False, renamed_from: str | None = None
    ) -> Node:
        """Add an operator of `KINDS`. In: anywhere  it reads any stream; else the last one."""
        streams = self._keyed if kind in ON_RECORD_KEYS else self._streams
        read = choose(streams) if anywhere else streams[-1]
        others = [each for each in streams if not {*each.topics} & {*read.topics}]
        step, value = KINDS[kind]
        node: Node = step(choose, read, choose(others)).named(name, renamed_from=renamed_from)
        if value:
            stream: Stream = node.as_stream() if isinstance(node, WindowedAggregate) else node
            key = "key" if "key" in stream.columns else "stream AS key"  # of a whole stream
            self._streams.append(stream.select(key, f"{value} AS value"))
            if node.key == ("key",):
                self._keyed.append(self._streams[-1])
        self.nodes += with_unnamed([node])
        return node
