"""What users write as processors, told as timelines: word count, KIP-28, deduplication, samples, joins, state machines."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest

import headrace as hr
from tests.laws.kernel.timelines import made, timeline

pytestmark = pytest.mark.fast

WORDS = hr.Topic("words", key="author STRING", value="text STRING")
NUMBERS = hr.Topic("numbers", key="key STRING", value="value BIGINT")
PRICES, TRADES = (hr.Topic(name, key="key STRING", value="value BIGINT") for name in ("prices", "trades"))
ORDERS = hr.Topic("orders", key="order_id STRING", value="status STRING")


class WordCount(hr.Processor):
    """How often each word has come, after each line."""

    def init(self, context: hr.Context) -> None:
        self.context, self.counts = context, context.store("counts")

    def process(self, record: hr.Record) -> None:
        for word in record["text"].split():
            self.counts.put(word, (self.counts.get(word) or 0) + 1)
        for word in dict.fromkeys(record["text"].split()):
            self.context.forward(word=word, n=self.counts.get(word))


def test_words_are_counted() -> None:
    node = WORDS.group_by("author").process(
        WordCount,
        output="word STRING, n BIGINT",
        stores=[hr.key_value_store("counts", "word STRING", "n BIGINT")],
    )
    lines = [
        ("w", "to be or not to be", 0.0),
        ("s", "to sleep", 1.0),
        ("w", "that is", 2.0),
        ("w", "not to be", 3.0),
    ]
    rows = made(
        node.named("word_counts"),
        timeline(pa.string(), {"words": {1: lines[:2], 2: lines[2:3], 5: lines[3:]}}),
    )
    last = {row["word"]: row["n"] for row in rows if row["word"] != "sleep"} | {"to": 3}
    assert last == Counter(" ".join(text for author, text, _ in lines if author == "w").split())
    assert [row["n"] for row in rows if row["word"] == "to"] == [2, 1, 3]


class Adds(hr.Processor):
    """The example of KIP-28: adds to the value of a key; each second of stream time all entries are forwarded."""

    def init(self, context: hr.Context) -> None:
        self.context, self.values = context, context.store("values")
        context.schedule(1_000, self.punctuate)

    def process(self, record: hr.Record) -> None:
        self.values.put(record["key"], (self.values.get(record["key"]) or 0) + record["value"])

    def punctuate(self, moment: dt.datetime) -> None:
        for key, value in self.values.all():
            self.context.forward(key=key, value=value, at=f"{moment:%S.%f}"[:4])


def test_kip_28_adds_up_and_forwards_each_second() -> None:
    """
    stream time   0.2   0.9 | 1.3 | 1.9   3.4 | 3.9
                  a+1   b+2 | a+3 | b+1   a+5 | a+1
    due                     1.2         2.2, 3.2: before the record of 3.4
    """
    node = NUMBERS.process(
        Adds,
        output="key STRING, value BIGINT, at STRING",
        stores=[hr.key_value_store("values", "key STRING", "value BIGINT")],
        stream_wait="1 second",
    )
    log = {
        1: [("a", 1, 0.2), ("b", 2, 0.9)],
        2: [("a", 3, 1.3)],
        3: [("b", 1, 1.9), ("a", 5, 3.4)],
        4: [("a", 1, 3.9)],
    }
    rows = made(node.named("sums"), timeline(pa.int64(), {"numbers": log}))
    assert [(row["at"], row["key"], row["value"]) for row in rows] == [
        ("01.2", "a", 1),
        ("01.2", "b", 2),
        ("02.2", "a", 4),
        ("02.2", "b", 3),
        ("03.2", "a", 4),
        ("03.2", "b", 3),
    ]


class Deduplicate(hr.Processor):
    """Forwards a number of a key once within ten seconds of event time, whatever the order in which records come."""

    def init(self, context: hr.Context) -> None:
        self.context, self.seen = context, context.window_store("seen")

    def process(self, record: hr.Record) -> None:
        time, ten = record.timestamp, dt.timedelta(seconds=10)
        assert time is not None
        if not [*self.seen.fetch(record["value"], first=time - ten, last=time + ten)]:
            self.context.forward(key=record["key"], value=record["value"])
        self.seen.put(record["value"], 1, at=time)


def test_duplicates_within_ten_seconds_are_dropped_and_old_ones_are_forgotten() -> None:
    """
    event time   0    4    15     (1 of b)   13       26            5
                 1    1 x  1 (11 s after)    1 x      1 (11 s)      1: its windows are forgotten at 26, so it is new
    """
    node = NUMBERS.group_by("key").process(
        Deduplicate,
        output="key STRING, value BIGINT",
        stores=[hr.window_store("seen", "value BIGINT", "n INT", retention="20 seconds")],
    )
    log = {
        1: [("a", 1, 0)],
        2: [("a", 1, 4)],
        3: [("a", 1, 15), ("b", 1, 15)],
        4: [("a", 1, 13), ("a", 2, 16)],
        5: [("a", 1, 26)],
    }
    rows = made(node.named("unique"), timeline(pa.int64(), {"numbers": log}))
    assert [(row["key"], row["value"]) for row in rows] == [("a", 1), ("a", 1), ("b", 1), ("a", 2), ("a", 1)]
    late = {**log, 6: [("b", 9, 60)], 7: [("a", 1, 26), ("a", 1, 61)]}
    rows = made(node.named("unique"), timeline(pa.int64(), {"numbers": late}))
    assert [(row["key"], row["value"]) for row in rows][5:] == [("b", 9), ("a", 1), ("a", 1)]


class Sample(hr.Processor):
    """The first record of a key, and then none for ten seconds of the wall clock."""

    def init(self, context: hr.Context) -> None:
        self.context, self.waits = context, context.store("waits")

    def process(self, record: hr.Record) -> None:
        if not self.waits.get():
            self.context.forward(key=record["key"], value=record["value"])
            self.waits.put(True)
            self.context.schedule("10 seconds", self.go_on, clock="wall", once=True)

    def go_on(self, moment: dt.datetime) -> None:
        self.waits.delete()


def test_a_sample_of_each_key_by_the_wall_clock() -> None:
    node = NUMBERS.group_by("key").process(
        Sample,
        output="key STRING, value BIGINT",
        stores=[hr.value_store("waits", "waits BOOLEAN")],
        wall_wait="10 seconds",
    )
    log = {
        1: [("a", 1, 0), ("a", 2, 0)],
        5: [("b", 3, 0)],
        10: [("a", 4, 0)],
        11: [("a", 5, 0), ("b", 6, 0)],
        16: [("b", 7, 0)],
    }
    rows = made(node.named("samples"), timeline(pa.int64(), {"numbers": log}))
    assert [(row["key"], row["value"]) for row in rows] == [("a", 1), ("b", 3), ("a", 5), ("b", 7)]


class AsOf(hr.Processor):
    """Each trade with the price of its moment; one that comes late has none."""

    def init(self, context: hr.Context) -> None:
        self.context, self.price = context, context.store("price")

    def process(self, record: hr.Record) -> None:
        if record.topic == "prices":
            self.price.put(record["value"])
        else:
            price = None if record.late else self.price.get()
            self.context.forward(key=record["key"], size=record["value"], price=price)


def test_a_trade_has_the_price_of_its_moment_in_whatever_order_they_come() -> None:
    """
    prices   1: 10        3: 11     9: 12
    trades      2   3   5        8            3 comes after 5, within the grace of 2; 4 comes after 8, which is too late
    """
    node = (
        PRICES.merge(TRADES)
        .group_by("key")
        .process(
            AsOf,
            output="key STRING, size BIGINT, price BIGINT",
            stores=[hr.value_store("price", "price BIGINT")],
            order="time",
            grace="2 seconds",
        )
    )
    prices = {3: [("x", 10, 1), ("x", 11, 3)], 5: [("x", 12, 9)], 7: [("x", 13, 20)]}
    trades = {
        1: [("x", 2, 2), ("x", 5, 5)],
        2: [("x", 3, 3)],
        4: [("x", 8, 8)],
        6: [("x", 4, 4)],
        8: [("x", 20, 20)],
    }
    rows = made(node.named("priced"), timeline(pa.int64(), {"prices": prices, "trades": trades}))
    assert [(row["size"], row["price"]) for row in rows] == [(2, 10), (3, 11), (5, 11), (4, None), (8, 11)]


def test_a_record_that_waits_is_released_by_the_very_next_millisecond() -> None:
    node = PRICES.merge(TRADES).group_by("key")
    prices, trades = {1: [("x", 10, 2.0)], 3: [("x", 11, 3.0)]}, {2: [("x", 1, 2.001)], 4: [("x", 2, 2.002)]}
    asked = node.process(
        AsOf,
        output="key STRING, size BIGINT, price BIGINT",
        stores=[hr.value_store("price", "price BIGINT")],
        order="time",
    )
    rows = made(asked.named("priced"), timeline(pa.int64(), {"prices": prices, "trades": trades}))
    assert [(row["size"], row["price"]) for row in rows] == [(1, 10)]


class OrderStates(hr.Processor):
    """An order is placed, paid and shipped; it has an hour to be paid and two more to be shipped."""

    follows = {None: "placed", "placed": "paid", "paid": "shipped"}  # noqa: RUF012
    waits = {"placed": "1 hour", "paid": "2 hours"}  # noqa: RUF012

    def init(self, context: hr.Context) -> None:
        self.context, self.status = context, context.store("status")

    def process(self, record: hr.Record) -> None:
        before, now = self.status.get(), record["status"]
        if self.follows.get(before) != now:
            self.context.forward(to="refused", order_id=record["order_id"], what=f"{now} after {before}")
            return
        self.status.put(now)
        self.context.cancel("too_late")
        if now in self.waits:
            self.context.schedule(self.waits[now], self.too_late, once=True)
        else:
            self.end(now, record.timestamp)

    def too_late(self, moment: dt.datetime) -> None:
        self.end(f"not {self.follows[self.status.get()]}", moment)

    def end(self, status: str, at: dt.datetime | None) -> None:
        self.context.forward(to="ended", order_id=self.context.key["order_id"], status=status, at=at)
        self.status.put("ended")


def test_orders_go_from_state_to_state_and_time_out() -> None:
    node = ORDERS.group_by("order_id").process(
        OrderStates,
        output={
            "ended": "order_id STRING, status STRING, at TIMESTAMP",
            "refused": "order_id STRING, what STRING",
        },
        stores=[hr.value_store("status", "status STRING")],
        stream_wait="2 hours",
    )
    minute = 60.0
    log = {
        1: [("a", "placed", 0.0), ("b", "placed", 5 * minute), ("c", "paid", 5 * minute)],
        2: [("a", "paid", 50 * minute), ("d", "placed", 55 * minute)],
        3: [("d", "paid", 70 * minute)],
        4: [("b", "paid", 71 * minute), ("a", "shipped", 90 * minute)],
        5: [("e", "placed", 300 * minute)],
    }
    rows = made(node.named("orders_seen"), timeline(pa.string(), {"orders": log}))
    told = [(row["order_id"], row["status"] or row["what"]) for row in rows]
    assert told == [
        ("c", "paid after None"),
        ("b", "not paid"),
        ("b", "paid after ended"),
        ("a", "shipped"),
        ("d", "not shipped"),
    ]
    assert [row["output"] for row in rows] == ["refused", "ended", "refused", "ended", "ended"]


class Visits(hr.Processor):
    """Three records, or a second of the wall clock, or a drain, end a batch."""

    def init(self, context: hr.Context) -> None:
        self.context, self.kept = context, context.store("kept")

    def process(self, record: hr.Record) -> None:
        kept = [*(self.kept.get() or []), record["value"]]
        self.kept.put(kept)
        if len(kept) == 1:
            self.context.schedule("10 seconds", self.flush, clock="wall", once=True)
        if len(kept) == 3:
            self.context.cancel("flush")
            self.flush(self.context.wall_time)

    def flush(self, moment: dt.datetime) -> None:
        self.context.forward(values=self.kept.get(), at=f"{moment:%S}")
        self.kept.delete()

    def close(self) -> None:
        if self.kept.get():
            self.context.cancel("flush")
            self.flush(self.context.wall_time)


def test_a_batch_ends_by_number_by_time_and_by_a_drain() -> None:
    node = NUMBERS.group_by("key").process(
        Visits,
        output="values ARRAY<BIGINT>, at STRING",
        stores=[hr.value_store("kept", "kept ARRAY<BIGINT>")],
        wall_wait="10 seconds",
    )
    log = {
        1: [("a", 1, 0), ("b", 7, 0)],
        2: [("a", 2, 0), ("a", 3, 0), ("a", 4, 0)],
        11: [("a", 5, 0)],
        30: [("c", 9, 0)],
    }
    world = timeline(pa.int64(), {"numbers": log}, drains=[31])
    rows = made(node.named("batches"), world)
    assert [(row["values"], row["at"]) for row in rows] == [
        ([1, 2, 3], "02"),
        ([7], "11"),
        ([4, 5], "12"),
        ([9], "31"),
    ]
