"""Tables, joins, groups of tables, and lookups for the laws of the kernel, and the worlds that they read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

import headrace as hr
from tests.laws.kernel.logs import SECOND, Choose, worlds
from tests.laws.kernel.reading import Computed
from tests.laws.kernel.subjects import Subject, topic

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


def referring(
    *topics: str, values: Choose = references, commits: tuple[int, int] = (2, 3), **more: Any
) -> Any:
    return worlds(values, VALUE, topics, ("a", "b", "ü", None), log_commits=commits, **more)


POSITIONS = topic("positions", "ticker STRING, parent STRING, amount INT", "id STRING")
TICKERS = topic("tickers", "exchange STRING, owner STRING, founded INT", "symbol STRING")
EXCHANGES = topic("exchanges", "city STRING, street STRING, opened INT", "market STRING")
ONE, TWO = (topic(name, "ref STRING, also STRING, amount INT", "id STRING") for name in ("one", "two"))
HELD, KNOWN, PLACES = POSITIONS.table(), TICKERS.table(), EXCHANGES.table()
# Of these some pick rows, and none of the others is one of the state's sums alone.
PICKED: dict[str, Any] = {
    "first_two": hr.collect("id", max_items=2),
    "n": hr.count(),
    "lowest": hr.min("amount"),
    "total": hr.sum("amount"),
    "highest": hr.max("amount"),
    "amounts": hr.collect("amount", max_items=50),
    "largest": hr.max_by("id", by="amount"),
    "smallest": hr.min_by("parent", by="amount"),
    "three": hr.top(3, "id", by="amount"),
}
SOME: dict[str, Any] = {name: PICKED[name] for name in ("n", "first_two", "highest")}
SUMS = {
    "n": hr.count(),
    "total": hr.sum("amount"),
    "mean": hr.avg("amount"),
    "half": hr.quantiles("amount", at=[0.5]),
}


def table_subjects() -> list[Subject]:
    nodes = {
        "latest": ONE.table(),
        "by_time": ONE.table("timestamp"),
        "of_two": ONE.merge(TWO).table(),
        "kept": ONE.merge(TWO).table("timestamp").where("amount > 0"),
        "forgetful": ONE.table("timestamp", forget_deletes_after=4 * SECOND),
        "by_another_key": ONE.key_by("amount").table(),
        "by_another_key_of_two": ONE.merge(TWO).key_by("amount").table("timestamp", "9 seconds"),
        "forgetful_of_two": ONE.merge(TWO).table("timestamp", "9 seconds").where("amount > 0"),
    }
    return [
        Subject(f"{name}{'_changes' * changes}", node.named(name), changes)
        for name, node in nodes.items()
        for changes in (False, True)
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


def of_either(left: Any, right: Any) -> dict[str, Any]:
    """The same where the left row may be missing."""
    return of_market(left or {"amount": None, "parent": None}, right)


def of_a_join(part: str, value: Any) -> Computed:
    """The values of a join whose select is MARKET, BOTH and `parent`."""
    names = ("id", pa.string()), ("market", pa.string()), ("both", pa.int64()), ("parent", pa.string())
    return Computed(part, pa.schema([*names]), value)


COMPUTED = of_a_join("rows", of_market)
BOTH_SIDES = (
    "left.amount AS amount",
    "left.exchange AS of_ticker",
    "right.exchange AS exchange",
    "city",
    "left.owner AS o",
)


def join_subjects() -> list[Subject]:
    by_time = POSITIONS.table("timestamp").join(TICKERS.table("timestamp"), on="ticker", how="left")
    selected = ("left.amount AS amount", "right.amount AS parent_amount")
    nodes = {
        "inner": HELD.join(KNOWN, on="ticker"),
        "left": HELD.join(KNOWN, on="ticker", how="left"),
        "joined_by_time": by_time,
        "joined_forgetful": HELD.join(TICKERS.table("timestamp", "5 seconds"), on="ticker", how="left"),
        "of_positive": HELD.where("amount > 0").join(KNOWN.where("founded > 0"), on="ticker", how="left"),
        "self_join": HELD.join(HELD, on="parent", how="left", select=selected),
        "chain": HELD.join(KNOWN, on="ticker").join(PLACES, on="exchange", how="left"),
        "nested": HELD.join(KNOWN.join(PLACES, on="exchange"), on="ticker", how="left"),
        "outer": HELD.join(KNOWN, on="id", how="outer"),
        "outer_by_time": POSITIONS.table("timestamp").join(TICKERS.table("timestamp").where("founded > 0"), "id", "outer"),
        "outer_of_joins": HELD.join(KNOWN, on="ticker").join(KNOWN.join(PLACES, on="exchange"), "id", "outer", select=BOTH_SIDES),
        "outer_of_groups": HELD.group_by("ticker").aggregate(n=hr.count()).join(KNOWN, on="ticker", how="outer"),
        "after_outer": HELD.join(KNOWN, on="id", how="outer").join(PLACES, on="exchange", how="left"),
    }  # fmt: skip
    windows = POSITIONS.group_by("ticker").window(hr.tumbling("8 seconds"), grace="4 seconds")
    others = TICKERS.group_by("symbol").window(hr.tumbling("8 seconds"), grace="4 seconds")
    held, known = windows.aggregate(held=hr.sum("amount")), others.aggregate(known=hr.count())
    nodes |= {
        "same_windows": held.join(known, on=("ticker", "window_start")),
        "same_final_windows": held.suppress(hr.until_window_closes()).join(
            known, on={"window_start": "window_start", "ticker": "symbol"}, how="left"
        ),
    }
    computed = HELD.join(KNOWN, on="id", how="outer", select=(MARKET, BOTH, "parent"))
    return [
        *(Subject(name, node.named(name), changes=True) for name, node in nodes.items()),
        Subject("outer_computed", computed.named("computed"), changes=True, computed=of_a_join("result", of_either)),
        *(Subject(f"{n}_current", nodes[n].named(n)) for n in ("inner", "left", "outer")),
    ]  # fmt: skip


def group_subjects() -> list[Subject]:
    joined = HELD.join(KNOWN, on="ticker", how="left")
    markets = HELD.join(KNOWN, on="ticker", how="left", select=(MARKET, BOTH, "parent"))
    nodes = {
        "groups": HELD.group_by("ticker").aggregate(n=hr.count(), spread=hr.variance("amount")),
        "groups_of_a_join": joined.group_by("exchange").aggregate(**SUMS).join(PLACES, on="exchange", how="left"),
        "market": markets.group_by("market").aggregate(n=hr.count(), total=hr.sum("both")),
        "picked": HELD.group_by("ticker").aggregate(**PICKED),
        "distinct": HELD.group_by("ticker").aggregate(
            amounts=hr.count_distinct("amount"), parents=hr.count_distinct("parent"), **SOME
        ),
        "picked_of_a_join": joined.group_by("exchange").aggregate(latest=hr.max("owner"), **PICKED),
        "picked_of_groups": HELD.group_by("ticker", "parent").aggregate(**PICKED).group_by("ticker")
        .aggregate(lowest=hr.max("lowest"), parents=hr.collect("parent", max_items=9)),
    }  # fmt: skip
    return [
        Subject(n, node.named(n), changes=True, computed=COMPUTED if n == "market" else None)
        for n, node in nodes.items()
    ] + [Subject(f"current_{n}", nodes[n].named(n)) for n in ("groups", "picked")]


def sum_above(row: Any) -> dict[str, Any] | None:
    """What `with_column("both", "amount + founded").where("both > 1")` makes of a row."""
    both = None if None in (row["amount"], row["founded"]) else row["amount"] + row["founded"]
    return {"both": both} if both is not None and both > 1 else None


def as_x(row: Any) -> dict[str, Any] | None:
    """The same, and `select("both AS x", …)` after it."""
    made = sum_above(row)
    return made and {"x": made["both"]}


def of_several(row: Any) -> dict[str, Any] | None:
    """What `where("n > 1")` makes of a row."""
    return {} if row["n"] > 1 else None


MADE_BOTH = pa.schema([("__made:both", pa.int64()), ("__made:passes", pa.bool_())])
MADE_X = pa.schema([("__made:x", pa.int64()), ("__made:passes", pa.bool_())])
PASSING = pa.schema([("__made:passes", pa.bool_())])


def refined_subjects() -> list[Subject]:
    """Row-wise steps after joins and groups, at the end of a node and on the way."""
    joined = HELD.join(KNOWN, on="ticker", how="left")
    above = joined.with_column("both", "amount + founded").where("both > 1")
    several = HELD.group_by("ticker").aggregate(**SUMS).where("n > 1")
    ends, left, rows = (Computed(part, MADE_BOTH, sum_above) for part in ("result", "left", "rows"))
    computed: dict[str, tuple[Any, Computed | None]] = {
        "join_above": (above, ends),
        "chosen_above": (above.select("both AS x", "exchange"), Computed("result", MADE_X, as_x)),
        "groups_of_several": (several, Computed("result", PASSING, of_several)),
        "joined_above": (above.join(PLACES, on="exchange", how="left"), left),
        "joined_right": (HELD.join(several, on="ticker", how="left"), Computed("right", PASSING, of_several)),
        "groups_above": (above.group_by("exchange").aggregate(n=hr.count(), most=hr.max("both")), rows),
        "chosen": (joined.select("exchange AS market", "amount"), None),
        "chosen_of_a_table": (HELD.select("amount AS n").join(KNOWN.select("owner"), "id", "outer"), None),
    }
    return [Subject(n, node.named(n), changes=True, computed=of) for n, (node, of) in computed.items()] + [
        Subject("current_above", above.named("current"), computed=ends)
    ]


def change_subjects() -> list[Subject]:
    """The changes of tables as rows that stay: of tables, joins, groups, aggregates and tables after steps."""
    joined = HELD.join(KNOWN, on="ticker", how="left")
    above = joined.with_column("both", "amount + founded").where("both > 1")
    by_owner = TICKERS.group_by("owner").aggregate(n=hr.count(), newest=hr.last("founded"))
    windows = TICKERS.group_by("owner").window(hr.hopping("20 seconds", "8 seconds"), grace="10 seconds")
    counted = windows.aggregate(n=hr.count())
    tables: dict[str, tuple[Any, Computed | None]] = {
        "latest": (HELD, None),
        "of_two": (ONE.merge(TWO).table("timestamp").where("amount > 0"), None),
        "joined": (joined, None),
        "outer": (HELD.join(KNOWN, on="id", how="outer"), None),
        "of_itself": (HELD.join(HELD, on="parent", select=("left.amount AS amount", "right.amount AS other")), None),
        "above": (above, Computed("result", MADE_BOTH, sum_above)),
        "groups": (joined.group_by("exchange").aggregate(**SUMS), None),
        "totals": (by_owner, None),
        "windows": (counted, None),
        "final_windows": (counted.suppress(hr.until_window_closes()), None),
    }  # fmt: skip
    return [Subject(n, table.changes().named(n), computed=of) for n, (table, of) in tables.items()]


ORDERS = topic("orders", "item STRING, previous STRING, n INT", "id STRING")
ITEMS, MORE = (
    topic(name, "kind STRING, maker STRING, price INT", "item STRING") for name in ("items", "more")
)
EARLIER = ORDERS.select("id", "item AS earlier", "n AS earlier_n").table()


def lookup_subjects(*, complete_first: bool = False, **kind: Any) -> list[Subject]:
    kind["complete_first"] = complete_first
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
            ORDERS.lookup(
                ITEMS.table(), on="item", as_of="event", history=history, complete_first=False
            ).named("history"),
        )
        for history in (8 * SECOND, 0)
    ]
    return [*lookup_subjects(as_of="event"), *made]


def complete_first_subjects() -> list[Subject]:
    """Lookups in tables that have to be complete first."""
    return [
        replace(subject, name=f"{subject.name}_{as_of}")
        for as_of in ("log", "event")
        for subject in lookup_subjects(as_of=as_of, complete_first=True)
    ]


def prior_subjects() -> list[Subject]:
    """The latest earlier record of another stream."""
    made, other = ORDERS.select("id", "item"), ITEMS.select("item AS piece", "kind AS item", "maker")
    both = other.merge(MORE.select("item AS piece", "kind AS item", "maker"))
    nodes = {
        "prior": made.join_prior(other, on="item", grace="5 seconds"),
        "prior_of_two": made.join_prior(both, on="item", grace=0, how="inner"),
        "soon_before": made.join_prior(both, on="item", grace="9 seconds", within="6 seconds"),
        "before_itself": made.join_prior(ORDERS.select("id AS before", "item"), on="item", grace="3 seconds"),
        "at_once": made.join_prior(other, on="item", grace="2 seconds", within=0, how="inner"),
    }
    return [Subject(name, node.named("prior")) for name, node in nodes.items()]


def narrow(number: int) -> dict[str, Any]:
    """Almost every record refers to one key."""
    return {"ref": "a" if number % 8 else "b", "also": ("a", "b")[number % 2], "amount": number - 10}


SOLD = topic("sold", "item STRING, clerk STRING, amount INT", "id STRING")
PAID, REFUNDED = (topic(name, "item STRING, bank STRING, sum INT", "id STRING") for name in ("paid", "more"))
SALE, PAYMENT = SOLD.select("id", "item", "amount"), PAID.select("id AS paid_id", "item", "bank", "sum")
REFUND = REFUNDED.select("id AS paid_id", "item", "bank", "sum")


def stream_join_subjects() -> list[Subject]:
    """Joins of two streams, and of a stream with two merged ones, on a column of the value and on the record key."""
    made = []
    for how in ("inner", "left", "outer"):
        nodes = {
            "on_the_item": SALE.join(PAYMENT, on="item", within="4 seconds", grace="3 seconds", how=how),
            "at_once": SALE.join(PAYMENT, on="item", within=0, grace=0, how=how),
            "of_two": SALE.join(PAYMENT.merge(REFUND), on="item", within="9 seconds", grace=0, how=how),
            "soon_after": SALE.join(
                PAYMENT, on="item", before=0, after="6 seconds", grace="2 seconds", how=how
            ),
            "well_before": SALE.join(
                PAYMENT, on="item", before="7 seconds", after="1 second", grace="4 seconds", how=how
            ),
            "on_the_key": SOLD.select("id", "amount").join(
                PAID.select("id", "sum"), on="id", within="6 seconds", grace="20 seconds", how=how
            ),
        }
        again = SOLD.select("id AS other_id", "item", "clerk AS other_clerk")
        nodes |= {
            "with_itself": SALE.join(again, on="item", within="4 seconds", grace="3 seconds", how=how),
            "with_what_follows": SALE.join(
                again, on="item", before=0, after="5 seconds", grace="2 seconds", how=how
            ),
        }
        made += [Subject(f"{how}_{name}", node.named("joined")) for name, node in nodes.items()]
    return made
