"""Nodes of every kind for the laws of the kernel, and the worlds that they read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Node
from tests.laws.kernel.logs import SECOND, Choose, World, worlds
from tests.laws.kernel.reading import Computed


@dataclass(frozen=True)
class Subject:
    """A node under test.

    changes   whether each change of its rows is wanted, too
    apart     whether its topics may be cut by themselves
    computed  what SQL computes of it
    """

    name: str
    node: Node
    changes: bool = False
    apart: bool = False
    computed: Computed | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Family:
    """Nodes of one kind, and the worlds in which they are tried."""

    name: str
    subjects: Sequence[Subject]
    worlds: st.SearchStrategy[World]


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
T, U = topic("t"), topic("u")


def windowed(
    name: str, stream: Any, of: int, size: int, advance: int, grace: int, *, suppressed: bool
) -> Subject:
    window = hr.hopping(size * SECOND, advance * SECOND)
    made = stream.group_by("key").window(window, grace=grace * SECOND).aggregate(**TOTALS[of])
    made = made.suppress(hr.until_window_closes()) if suppressed else made
    return Subject(name, made.named(name), apart=len(made.topics) > 1)


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


def batch_subjects() -> list[Subject]:
    limits: list[dict[str, Any]] = [
        {"max_records": 1},
        {"max_records": 3},
        {"max_wait": "1 ms"},
        {"max_wait": "2 seconds"},
        {"max_records": 2, "max_wait": "61 seconds"},
        {"max_bytes": 13},
        {"max_records": 4, "max_bytes": 20, "max_wait": "7 seconds"},
    ]
    made = []
    for each in limits:
        for number, stream in enumerate((T.stream, T.merge(U)), 1):
            node = stream.group_by("key").batch(collect=["value", "key"], **each).named("batches")
            made.append(Subject(f"batches_{'_'.join(each)}_of_{number}", node))
    return made


# Topics whose records refer to those of others: a key, a reference, another reference, a number.
VALUE = pa.struct([("ref", pa.string()), ("also", pa.string()), ("amount", pa.int32())])
REFERENCES = ("a", "b", "ü", "a", "nobody", None)


def references(number: int) -> dict[str, Any]:
    """A value with two references and a number."""
    number, ref = divmod(number, len(REFERENCES))
    number, also = divmod(number, 4)
    return {
        "ref": REFERENCES[ref],
        "also": ("a", "b", "x", None)[also],
        "amount": (None, 1, 0, 2_000_000_000)[number % 4],
    }


def referring(*topics: str, values: Choose = references, commits: tuple[int, int] = (2, 3)) -> Any:
    return worlds(values, VALUE, topics, ("a", "b", "ü", None), log_commits=commits)


POSITIONS = topic("positions", "ticker STRING, parent STRING, amount INT", "id STRING")
TICKERS = topic("tickers", "exchange STRING, owner STRING, founded INT", "symbol STRING")
EXCHANGES = topic("exchanges", "city STRING, street STRING, opened INT", "market STRING")
ONE, TWO = (topic(name, "ref STRING, also STRING, amount INT", "id STRING") for name in ("one", "two"))
HELD, KNOWN, PLACES = POSITIONS.table(), TICKERS.table(), EXCHANGES.table()
SUMS = {"n": hr.count(), "total": hr.sum("amount"), "mean": hr.avg("amount")}


def table_subjects() -> list[Subject]:
    nodes = {
        "latest": ONE.table(),
        "by_time": ONE.table("timestamp"),
        "of_two": ONE.merge(TWO).table(),
        "kept": ONE.merge(TWO).table("timestamp").where("amount > 0"),
    }
    return [
        Subject(f"{name}{'_changes' * changes}", node.named(name), changes, apart=not changes)
        for name, node in nodes.items()
        for changes in (False, True)
    ]


def total_subjects(one: Any, both: Any) -> list[Subject]:
    grouped, merged = one.group_by("key"), both.group_by("key")
    return [
        *(Subject(f"totals_{n}", grouped.aggregate(**of).named("totals")) for n, of in enumerate(TOTALS)),
        Subject("totals_of_two", merged.aggregate(**TOTALS[3]).named("totals"), apart=True),
        Subject("changes_of_totals", merged.aggregate(**TOTALS[0]).named("totals"), changes=True),
    ]


MARKET, BOTH = "coalesce(exchange, 'none') AS market", "amount + founded AS both"


def of_market(left: Any, right: Any) -> dict[str, Any]:
    """What these two and `parent` make of a pair."""
    numbers = (left["amount"], right and right["founded"])
    return {
        "market": (right and right["exchange"]) or "none",
        "both": None if None in numbers else sum(numbers),
        "parent": left["parent"],
    }


COMPUTED = Computed(
    "rows",
    pa.schema([("id", pa.string()), ("market", pa.string()), ("both", pa.int64()), ("parent", pa.string())]),
    of_market,
)


def join_subjects() -> list[Subject]:
    by_time = POSITIONS.table("timestamp").join(TICKERS.table("timestamp"), on="ticker", how="left")
    selected = ("left.amount AS amount", "right.amount AS parent_amount")
    nodes = {
        "inner": HELD.join(KNOWN, on="ticker"),
        "left": HELD.join(KNOWN, on="ticker", how="left"),
        "joined_by_time": by_time,
        "of_positive": HELD.where("amount > 0").join(KNOWN.where("founded > 0"), on="ticker", how="left"),
        "self_join": HELD.join(HELD, on="parent", how="left", select=selected),
        "chain": HELD.join(KNOWN, on="ticker").join(PLACES, on="exchange", how="left"),
        "nested": HELD.join(KNOWN.join(PLACES, on="exchange"), on="ticker", how="left"),
    }
    return [Subject(name, node.named(name), changes=True) for name, node in nodes.items()] + [
        Subject(f"{name}_current", nodes[name].named(name), apart=True) for name in ("inner", "left")
    ]


def group_subjects() -> list[Subject]:
    joined = HELD.join(KNOWN, on="ticker", how="left")
    markets = HELD.join(KNOWN, on="ticker", how="left", select=(MARKET, BOTH, "parent"))
    nodes = {
        "groups": HELD.group_by("ticker").aggregate(n=hr.count(), spread=hr.variance("amount")),
        "groups_of_a_join": joined.group_by("exchange").aggregate(**SUMS).join(PLACES, on="exchange", how="left"),
        "market": markets.group_by("market").aggregate(n=hr.count(), total=hr.sum("both")),
    }  # fmt: skip
    return [
        Subject(n, node.named(n), changes=True, computed=COMPUTED if n == "market" else None)
        for n, node in nodes.items()
    ] + [Subject("current_groups", nodes["groups"].named("groups"))]


SALES = topic("sales", "shop STRING, clerk STRING, amount INT", "id STRING")
SHOPS = topic("shops", "city STRING, street STRING, opened INT", "shop STRING")
SIDES: dict[str, Any] = {"n": hr.count(), "total": hr.sum("amount"), "newest": hr.last("amount")}


def side_subjects() -> list[Subject]:
    """Totals and windows of a stream as sides of joins and groups."""
    by_shop = SALES.group_by("shop")
    totals = by_shop.aggregate(**SIDES)
    windows = by_shop.window(hr.hopping("20 seconds", "8 seconds"), grace="10 seconds").aggregate(**SIDES)
    tumbling = by_shop.window(hr.tumbling("20 seconds"), grace="10 seconds").aggregate(**SIDES)
    final, known = tumbling.suppress(hr.until_window_closes()), SHOPS.table()
    sums = {"shops": hr.count(), "total": hr.sum("total")}
    nodes = {
        "totals_left": totals.join(known, on="shop", how="left"),
        "totals_right": known.join(totals, on="shop", how="left"),
        "cities": totals.join(known, on="shop").group_by("city").aggregate(**sums),
        "changes_of_windows": windows,
        "windows_left": windows.join(known, on="shop", how="left"),
        "final_windows": final.join(known, on="shop"),
        "numbers_of_windows": final.group_by("shop").aggregate(**sums),
    }
    return [Subject(name, node.named(name), changes=True) for name, node in nodes.items()]


ORDERS = topic("orders", "item STRING, previous STRING, n INT", "id STRING")
ITEMS, MORE = (
    topic(name, "kind STRING, maker STRING, price INT", "item STRING") for name in ("items", "more")
)
EARLIER = ORDERS.select("id", "item AS earlier", "n AS earlier_n").table()


def lookup_subjects(**kind: Any) -> list[Subject]:
    nodes = {
        "valid": ORDERS.lookup(ITEMS.table(), on="item", **kind),
        "found": ORDERS.lookup(ITEMS.table("timestamp"), on="item", how="inner", **kind),
        "of_itself": ORDERS.lookup(EARLIER, on="previous", **kind),
        "dear": ORDERS.lookup(ITEMS.merge(MORE).table("timestamp").where("price > 0"), on="item", **kind),
    }
    return [Subject(name, node.named(name)) for name, node in nodes.items()]


def event_lookup_subjects() -> list[Subject]:
    made = [
        Subject(
            f"history_{history}",
            ORDERS.lookup(ITEMS.table(), on="item", as_of="event", history=history).named("history"),
        )
        for history in (8 * SECOND, 0)
    ]
    return [*lookup_subjects(as_of="event"), *made]


def narrow(number: int) -> dict[str, Any]:
    """Almost every record refers to one key."""
    return {"ref": "a" if number % 8 else "b", "also": ("a", "b")[number % 2], "amount": number - 10}


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


def families() -> list[Family]:
    """All operators."""
    one_topic, two_topics = (
        worlds(whole, pa.int64()),
        worlds(whole, pa.int64(), ("t", "u"), log_commits=(2, 3)),
    )
    drained = {"controls": ("drain", "drain", "control")}
    asked = st.one_of([referring("items", "more", "orders", values=each) for each in (references, narrow)])
    return [
        Family("windows", window_subjects(T.stream, T.merge(U)), two_topics),
        of_numbers("windows of doubles", window_subjects, "DOUBLE", double, pa.float64()),
        Family("sliding windows", sliding_subjects(), one_topic),
        Family("sessions", session_subjects(), one_topic),
        Family("totals", total_subjects(T.stream, T.merge(U)), two_topics),
        of_numbers("totals of doubles", total_subjects, "DOUBLE", double, pa.float64()),
        of_numbers("totals of decimals", total_subjects, "DECIMAL(12,3)", decimal, pa.decimal128(12, 3)),
        Family("tables", table_subjects(), referring("one", "two")),
        Family("batches", batch_subjects(), worlds(whole, pa.int64(), ("t", "u"), log_commits=(2, 3), **drained)),  # type: ignore[arg-type]
        Family("time limits", limit_subjects(), worlds(whole, pa.int64(), controls=("set_limits",), limits=limits_set())),
        Family("joins", join_subjects(), referring("positions", "tickers", "exchanges")),
        Family("groups of tables", group_subjects(), referring("positions", "tickers", "exchanges")),
        Family("aggregates as sides", side_subjects(), referring("sales", "shops")),
        Family("lookups in the log", lookup_subjects(), asked),
        Family("lookups in event time", event_lookup_subjects(), asked),
    ]  # fmt: skip


def of_numbers(
    name: str, make: Callable[[Any, Any], list[Subject]], ddl: str, values: Choose, of: pa.DataType
) -> Family:
    """The same over numbers of another type, of one topic."""
    mine = topic("t", f"value {ddl}")
    return Family(name, make(mine.stream, mine.stream), worlds(values, of))


FAMILIES = families()
