"""One node of each kind, over two topics; some of them read others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import headrace as hr
from headrace.description import Merged, Node, WindowedAggregate

if TYPE_CHECKING:
    from collections.abc import Collection

EVENTS = hr.Topic("events", key="key STRING", value="value BIGINT, place STRING", idle_timeout="1 minute")
PLACES = hr.Topic("places", key="place STRING", value="city STRING", idle_timeout="1 minute")
BEFORE, AFTER = 99, 2  # the values that the description leaves out, and leaves out once it has changed


class Numbers(hr.Processor):
    """Numbers the records of a key, and gives the last number again if none comes for two minutes."""

    def init(self, context: hr.Context) -> None:
        """See `hr.Processor`."""
        self.context, self.count = context, context.store("count")

    def process(self, record: hr.Record) -> None:
        """See `hr.Processor`."""
        number = (self.count.get() or 0) + 1
        self.count.put(number)
        self.context.forward(key=self.context.key["key"], number=number, value=record["value"])
        self.context.schedule("2 minutes", self.silent, once=True)

    def silent(self, moment: object) -> None:
        """No record has come for two minutes of stream time."""
        self.context.forward(key=self.context.key["key"], number=self.count.get(), value=None)


READERS = ("NamedStream", "RunningAggregate")  # of other nodes
AGAIN = "_again"


def nodes(left_out: int = BEFORE, renamed: Collection[str] = ()) -> dict[str, Node]:
    """The nodes by their kind, as the registry of operators names it.

    In: left_out  the value of events that no node reads
        renamed   the kinds whose nodes have got another name
    """

    def named(node: Any, kind: str) -> Any:
        name = name_of(kind)
        return node.named(name + AGAIN, renamed_from=name) if kind in renamed else node.named(name)

    events: Any = EVENTS.stream.where(f"value IS NULL OR value <> {left_out}")
    by_key, rows = events.group_by("key"), events.table()
    counts = {"n": hr.count(), "total": hr.sum("value"), "newest": hr.last("value")}
    final = hr.until_window_closes()
    windows = by_key.window(hr.tumbling("2 minutes"), grace="1 minute").aggregate(**counts).suppress(final)
    windows = named(windows, "TimeWindows")
    each = events.select("key", "value").flat_map(
        "explode(array(value, value + 1)) AS each", ordinal="number"
    )
    each = named(each, "FlatMapped")
    made = {
        "Batches": by_key.batch(max_records=3, max_wait="90 seconds", collect=["value"]),
        "CalendarWindows": by_key.window(hr.calendar("day", zone="Europe/Athens"), grace="1 minute")
        .aggregate(**counts)
        .suppress(final),
        "Distinct": events.distinct("key", "value", within="5 minutes"),
        "FlatMapped": each,
        "Join": rows.join(PLACES.table(), on="place", how="left"),
        "Lookup": events.lookup(PLACES.table(), on="place"),
        "Merged": Merged(events.select("key", "value"), events.select("key", "value * 10 AS value")),
        "NamedStream": windows.as_stream().where("n > 0"),
        "Processed": by_key.process(
            Numbers,
            output="key STRING, number BIGINT, value BIGINT",
            stores=[hr.value_store("count", "n BIGINT")],
            stream_wait="2 minutes",
        ),
        "Refined": rows.join(PLACES.table(), on="place", how="left").where("city IS NOT NULL"),
        "RunningAggregate": each.group_by("key").aggregate(n=hr.count(), total=hr.sum("each")),
        "SessionWindows": by_key.window(hr.session("25 seconds"), grace="1 minute")
        .aggregate(n=hr.count(), total=hr.sum("value"))
        .suppress(final),
        "SlidingWindows": by_key.window(hr.sliding("2 minutes"), grace="1 minute")
        .aggregate(**counts)
        .suppress(final),
        "StreamJoin": events.join(PLACES, on="place", within="3 minutes", grace="1 minute", how="left"),
        "Suppressed": by_key.aggregate(**counts).suppress(hr.until_time_limit("3 minutes")),
        "Table": rows,
        "TableAggregate": rows.group_by("place").aggregate(n=hr.count(), total=hr.sum("value")),
        "TableChanges": rows.changes(),
        "TimeWindows": windows,
    }
    return {
        kind: node if isinstance(node, Node) and node.name else named(node, kind)
        for kind, node in made.items()
    }


def name_of(kind: str) -> str:
    """The name of the node of a kind: `time_windows` of TimeWindows."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind).lstrip("_")


def kind_of(node: Node) -> str:
    """The kind of a node, as the registry of operators names it."""
    return type(node.window if isinstance(node, WindowedAggregate) else node).__name__
