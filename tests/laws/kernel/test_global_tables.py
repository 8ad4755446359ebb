"""Global tables of processors: as of which place they are read, what is refused, and what is kept of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description import Node, NodeOutput
from headrace.operators.processors.fold.global_tables import table_in_log
from tests.laws.kernel.chained import ChainedReading, logs_of
from tests.laws.kernel.global_table_subjects import Finds
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World
from tests.laws.kernel.plans import ONE_GO, Plan
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U
from tests.laws.kernel.test_compositions import check
from tests.laws.kernel.timelines import Records, made, timeline
from tests.laws.kernel.verdict import Verdict

pytestmark = pytest.mark.fast

VALUE = pa.struct([("name", pa.string()), ("number", pa.int64())])
ORDERS = hr.Topic("orders", key="id STRING", value="currency STRING, amount BIGINT")
RATES = hr.Topic("rates", key="currency STRING", value="bank STRING, rate BIGINT")
Does = Callable[[Any, hr.Record], None]


class Converts(hr.Processor):
    """Tells an order's amount at the rate of its place; timers tell all rates."""

    does: Does | None = None

    def init(self, context: hr.Context) -> None:
        self.context, self.rates = context, context.global_table("rates")

    def process(self, record: hr.Record) -> None:
        if self.does is not None:
            type(self).does(self, record)  # type: ignore[misc]
            return
        row = self.rates.get(record["currency"])
        self.say(None if row is None else record["amount"] * row["rate"])
        self.context.schedule("1 second", self.by_wall, clock="wall", once=True)
        self.context.schedule("1 second", self.by_stream, once=True)

    def by_wall(self, moment: dt.datetime) -> None:
        self.say(f"wall {self.told()}")

    def by_stream(self, moment: dt.datetime) -> None:
        self.say(f"stream {self.told()}")

    def close(self) -> None:
        self.say(f"close {self.told()}")

    def told(self) -> str:
        return " ".join(f"{currency}={row['rate']}" for currency, row in self.rates.all())

    def say(self, what: object) -> None:
        self.context.forward(id=self.context.key["id"], what=str(what))


def node(table: Any = None, *, complete_first: bool = False, **options: Any) -> Node:
    table = RATES.table() if table is None else table
    found: Node = (
        ORDERS.group_by("id")
        .process(
            Converts,
            output="id STRING, what STRING",
            stores=[hr.global_table("rates", table, complete_first=complete_first)],
            **{"stream_wait": "1 second", "wall_wait": "1 second", **options},
        )
        .named("converted")
    )
    return found


def world(orders: dict[int, Records], rates: dict[int, Records], *drains: float) -> World:
    return timeline(VALUE, {"orders": orders, "rates": rates}, drains=drains)


def order(order: str, currency: str, amount: int, time: float) -> tuple[str, Any, float]:
    return order, {"name": currency, "number": amount}, time


def rate(currency: str, number: int, time: float) -> tuple[str, Any, float]:
    return currency, {"name": "ecb", "number": number}, time


def told(of: Node, logs: World) -> list[str]:
    return [f"{row['id']} {row['what']}" for row in made(of, logs)]


def of_records(rows: list[str]) -> list[str]:
    return [row for row in rows if len(row.split()) == 2]


def test_a_record_finds_the_rates_that_stand_before_it_in_the_logs() -> None:
    logs = world(
        {2: [order("a", "eur", 10, 0)], 3: [order("b", "eur", 10, 0), order("c", "usd", 1, 0)]},
        {1: [rate("eur", 2, 9)], 2: [rate("eur", 3, 8)], 4: [rate("eur", 99, 0), rate("usd", 7, 0)]},
    )
    assert of_records(told(node(), logs)) == ["a 20", "b 30", "c None"]
    by_time = node(RATES.table("timestamp"))
    assert of_records(told(by_time, logs)) == ["a 20", "b 20", "c None"]


def test_rows_of_a_table_that_no_record_names_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a micro-batch does not grow with the table, as far as Python does it."""
    read, tuples = list[int](), table_in_log._tuples

    def counted(rows: pa.Table, fields: tuple[pa.Field, ...]) -> list[tuple[Any, ...]]:
        read.append(rows.num_rows)
        return tuples(rows, fields)

    monkeypatch.setattr(table_in_log, "_tuples", counted)
    monkeypatch.setattr(Converts, "does", lambda self, record: self.say(self.rates.get(record["currency"])))
    logs = world(
        {
            2: [order("a", "c7", 1, 0), order("b", "none", 1, 0)],
            3: [order("c", "c8", 1, 0), order("d", "c7", 1, 0)],
        },
        {1: [rate(f"c{number}", number, 0) for number in range(300)], 2: [rate("c8", 9, 0)]},
    )
    rows = run(Reading(node(), logs).operator.steps, Reading(node(), logs), Plan(sizes=(1,))).rows()
    row = "{{'bank': 'ecb', 'rate': {}}}".format
    assert [(each["id"], each["what"]) for each in rows] == [
        ("a", row(7)), ("b", "None"), ("c", row(9)), ("d", row(7)),
    ]  # fmt: skip
    assert max(read) <= 2


def test_a_timer_by_the_wall_clock_finds_the_table_before_its_commit_and_one_by_the_stream_clock_after() -> (
    None
):
    logs = world(
        {2: [order("a", "eur", 10, 0)], 5: [order("z", "usd", 1, 5)]},
        {1: [rate("eur", 2, 0)], 3: [rate("eur", 3, 90)], 4: [rate("eur", 4, 91)], 5: [rate("eur", 5, 92)]},
    )
    assert told(node(), logs) == ["a 20", "a wall eur=2", "z None", "a stream eur=5"]


def test_a_drain_finds_the_table_after_its_commit() -> None:
    logs = world({2: [order("a", "eur", 10, 0)]}, {1: [rate("eur", 2, 0), rate("chf", 1, 0)]}, 2.5)
    assert told(node(), logs) == ["a 20", "a close chf=1 eur=2"]


def test_rows_that_follow_from_a_whole_commit_stand_after_its_records() -> None:
    """Though the name of their topic, `highest@…`, sorts before that of the record's."""
    highest = U.group_by("key").aggregate(value=hr.max("value")).changes().named("highest")
    finds = T.group_by("key").process(
        Finds,
        output="key STRING, n BIGINT, found BIGINT",
        stores=[hr.global_table("others", highest.table())],
        stream_wait="3 seconds",
        wall_wait="2 seconds",
    )
    came: dict[str, dict[int, Records]] = {
        "t": {2: [("a", 0, 0)], 3: [("a", 0, 0)]},
        "u": {1: [("a", 1, 0)], 2: [("a", 5, 0)]},
    }
    logs = logs_of(timeline(pa.int64(), came))
    log = check(highest, Plan(sizes=(1,)), logs)
    assert log is not None
    logs[NodeOutput.of(highest).name] = log
    reading = ChainedReading(finds.named("finds"), logs)
    Verdict(reading).check(Plan(sizes=(1,), buckets=(2,)))
    rows = sorted(run(reading.operator.steps, reading).rows(), key=lambda row: row["__sequence"])
    assert [row["found"] for row in rows if row["__topic"] == "t"] == [1, 5]


def run_with(does: Does, monkeypatch: pytest.MonkeyPatch, plan: Plan = ONE_GO) -> list[dict[str, Any]]:
    monkeypatch.setattr(Converts, "does", staticmethod(does))
    logs = world({2: [order("a", "eur", 10, 0)]}, {1: [rate("eur", 2, 0), rate("chf", 1, 0)]})
    reading = Reading(node(), logs)
    return run(reading.operator.steps, reading, plan).rows()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda self, record: self.rates.put("eur", 5), "Store 'rates': put: it is a global table, which processors only"),
        (lambda self, record: self.context.store("rates").delete("eur"), "Store 'rates': delete: it is a global table"),
        (lambda self, record: self.context.global_table("no"), "there is no global table 'no'; there are rates"),
        (lambda self, record: self.rates.get(5), "is string, and cannot hold 5"),
        (lambda self, record: self.context.window_store("rates"), "there is no window store 'rates'"),
    ],
)  # fmt: skip
def test_a_processor_does_not_write_it_and_asks_by_its_key(
    does: Does, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(hr.ProcessorError) as error:
        run_with(does, monkeypatch)
    assert said in str(error.value)
    assert "Converts.process raises for orders, partition 0, offset 0" in str(error.value)
    assert "(test_global_tables.py, line " in str(error.value)


def test_a_null_refers_to_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = run_with(lambda self, record: self.say(self.rates.get(None)), monkeypatch)
    assert row["what"] == "None"


def test_all_and_range_give_rows_in_the_order_of_keys_and_a_value_of_one_column_is_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reads(self: Any, record: hr.Record) -> None:
        row = self.rates.get("eur")
        row["rate"] = 9  # a copy, for values cannot be changed by the back door
        keys = [key for key, _ in self.rates.all()], [key for key, _ in self.rates.range("d", "eur")]
        self.say(f"{keys} {self.context.store('rates').get('eur')}")

    (row,) = run_with(reads, monkeypatch)
    assert row["what"] == "(['chf', 'eur'], ['eur']) {'bank': 'ecb', 'rate': 2}"
    plain = node(RATES.select("currency", "rate").table())
    monkeypatch.setattr(Converts, "does", lambda self, record: self.say(self.rates.get(record["currency"])))
    logs = world({2: [order("a", "eur", 10, 0)]}, {1: [rate("eur", 2, 0)]})
    assert told(plain, logs) == ["a 2"]


def test_it_is_not_read_in_init() -> None:
    class Early(hr.Processor):
        def init(self, context: hr.Context) -> None:
            context.global_table("rates").get("eur")

        def process(self, record: hr.Record) -> None:
            """Nothing."""

    early = ORDERS.process(
        Early, output="n INT", stores=[hr.global_table("rates", RATES.table(), complete_first=False)]
    )
    reading = Reading(early.named("early"), world({1: [order("a", "eur", 1, 0)]}, {}))
    with pytest.raises(hr.ProcessorError, match="there is no place in the logs in init"):
        run(reading.operator.steps, reading)


def test_the_state_holds_the_table_once_and_no_values_of_deleted_keys() -> None:
    kept = RATES.table().where("rate > 0")
    logs = world(
        {2: [order(name, "eur", 1, 0) for name in "abcdefgh"]},
        {1: [rate("eur", 2, 0), rate("usd", 3, 0)], 3: [rate("usd", 0, 0)]},
    )
    reading = Reading(node(kept), logs)
    found = run(reading.operator.steps, reading, Plan(sizes=(1,), buckets=(3,)))
    (table,) = (tables["global_rates"] for tables in found.state if "global_rates" in tables)
    rows = {row["currency"]: (row["rate"], row["__deleted"]) for row in table.to_pylist()}
    assert rows in ({"eur": (2, False), "usd": (None, True)}, {"eur": (2, False)})
    assert table.num_rows == len(rows)


def test_its_steps_can_be_told_apart_by_what_sends_rows_to_them() -> None:
    reading = Reading(node(), world({}, {}))
    assert len({*reading.operator.steps}) == 2


def test_no_log_commit_reads_no_state() -> None:
    reading = Reading(node(), world({}, {1: [rate("eur", 2, 0)]}))
    rows, times = reading.increment({}, {"orders": 0, "rates": 0})
    (keeps, _) = reading.operator.steps
    assert keeps.needs(rows, times) == {}


def test_versions_of_other_tables_do_not_move_what_stands_in_one() -> None:
    banks = hr.Topic("banks", key="bank STRING", value="city STRING, founded BIGINT")
    made_of_two = ORDERS.group_by("id").process(
        Converts,
        output="id STRING, what STRING",
        stores=[
            hr.global_table("rates", RATES.table(), complete_first=False),
            hr.global_table("banks", banks.table(), complete_first=False),
        ],
        stream_wait="1 second",
        wall_wait="1 second",
    )
    came: dict[str, dict[int, Records]] = {
        "orders": {3: [order("a", "eur", 10, 0)], 4: [order("z", "usd", 1, 5)]},
        "rates": {1: [rate("eur", 2, 0), rate("usd", 3, 0)]},
        "banks": {2: [rate(name, 1, 0) for name in "abcdefgh"]},
    }
    rows = told(made_of_two.named("converted"), timeline(VALUE, came))
    assert rows == ["a 20", "a wall eur=2 usd=3", "z 3", "a stream eur=2 usd=3"]


def test_a_delete_by_timestamp_is_remembered_against_older_versions_that_come_later() -> None:
    logs = world(
        {5: [order("a", "eur", 10, 0)]},
        {1: [rate("eur", 2, 5)], 2: [rate("eur", 0, 9)], 4: [rate("eur", 3, 7)]},
    )
    reading = Reading(node(RATES.table("timestamp").where("rate > 0")), logs)
    for seed in range(12):  # upkeep comes by chance
        (row,) = run(reading.operator.steps, reading, Plan(sizes=(1,), seed=seed)).rows()
        assert row["what"] == "None"
