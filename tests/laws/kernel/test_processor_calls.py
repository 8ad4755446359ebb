"""What a processor is given and what it may not do; and timers whose time comes between log commits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.engine.folding.fold_increment import Run
from headrace.engine.folding.operators import operator_of
from headrace.engine.state_files import StateSource
from headrace.fold.contract import ROW_COLUMNS, Clock, Times

pytestmark = pytest.mark.fast

T = hr.Topic("t", key="key STRING", value="value BIGINT")
STORES = [
    hr.key_value_store("pairs", "a STRING, b INT", "n BIGINT, more ARRAY<STRING>"),
    hr.value_store("money", "amount DECIMAL(8,2)"),
]
Does = Callable[[Any, hr.Record], None]


class Does_(hr.Processor):  # noqa: N801
    """Does with each record what a test says."""

    does: Does

    def init(self, context: hr.Context) -> None:
        self.context = context
        self.pairs, self.money = context.store("pairs"), context.store("money")

    def process(self, record: hr.Record) -> None:
        type(self).does(self, record)

    def tell(self, moment: dt.datetime) -> None:
        self.context.forward(what=f"{self.context.key['key']} at {moment:%S.%f}")


Increment = tuple[list[tuple[int, str, int]], int]


def folded(does: Does, *increments: Increment, folder: str = "", output: Any = "what STRING") -> list[str]:
    """What is forwarded. In: of each increment the records (commit time, key, event time), and how far the log was read."""
    Does_.does = staticmethod(does)
    node = T.group_by("key").process(
        Does_, output=output, stores=STORES, stream_wait="1 minute", wall_wait="1 minute"
    )
    schema = pa.schema([("key", pa.string()), ("value", pa.int64())])
    operator = operator_of(node.named("it"), {"result": schema})
    source, before, found = StateSource(folder), Clock(), list[str]()
    offset = 0
    for batch, (records, upto_ms) in enumerate(increments):
        rows, commits, stream = [], list[tuple[int, Clock]](), dict(before.stream_ms)
        for at, key, event in records:
            stream["t", 0] = max(event, stream.get(("t", 0), event))
            rows.append((key, 1, at, "t", 0, offset, event, stream["t", 0], 9, None, None))
            commits.append((at, Clock({"t": at}, dict(stream), lowest_ms=stream["t", 0])))
            offset += 1
        after = Clock({"t": upto_ms}, stream, lowest_ms=stream.get(("t", 0)))
        commits[-1:] = [(commits[-1][0], after)] if commits else []
        columns = zip(*rows, strict=True) if rows else [()] * 11
        full = pa.schema([*schema, *ROW_COLUMNS])
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, full, strict=True)], schema=full)
        done = Run().increment(operator.steps, table, Times(before, after, commits), source, batch=batch)
        source, before = source.plus(done.state), after
        found += [row["what"] for one in done.outputs["results"] for row in one.to_pylist()]
    return found


def test_a_timer_whose_time_the_log_was_read_through_fires_with_the_next_commit(tmp_path: Any) -> None:
    (tmp_path / "state").mkdir()

    def does(self: Any, record: hr.Record) -> None:
        if record["key"] == "a":
            self.context.schedule("2 seconds", self.tell, clock="wall", once=True)

    read_on: list[Increment] = [
        ([(1_000, "a", 0)], 1_500),
        ([], 4_000),
        ([(5_000, "b", 0)], 5_000),
        ([(9_000, "b", 0)], 9_000),
    ]
    assert folded(does, *read_on, folder=str(tmp_path / "state")) == ["a at 03.000000"]


def test_a_stream_timer_is_called_at_each_of_its_times(tmp_path: Any) -> None:
    (tmp_path / "state").mkdir()

    def does(self: Any, record: hr.Record) -> None:
        if record["key"] == "a":
            self.context.schedule("2 seconds", self.tell)

    at = ([(1, "a", 1_000)], 1), ([(2, "b", 8_000), (3, "b", 8_900)], 3), ([(4, "b", 9_000)], 4)
    assert folded(does, *at, folder=str(tmp_path / "state")) == [
        "a at 03.000000",
        "a at 05.000000",
        "a at 07.000000",
        "a at 09.000000",
    ]


def test_values_come_back_as_they_are_stored_and_lists_are_no_back_door(tmp_path: Any) -> None:
    (tmp_path / "state").mkdir()

    def does(self: Any, record: hr.Record) -> None:
        if record.offset == 0:
            given = ["x"]
            self.pairs.put(("a", 1), {"n": 5, "more": given})
            given.append("y")
            self.pairs.get(("a", 1))["more"].append("z")
            self.money.put(3)
        pair, money = self.pairs.get(("a", 1)), self.money.get()
        assert type(money) is Decimal
        self.context.forward(what=f"{pair['n']} {pair['more']} {money} {self.pairs.get(('a', 2))}")

    two = ([(1, "k", 0)], 1), ([(2, "k", 0)], 2)
    assert folded(does, *two, folder=str(tmp_path / "state")) == ["5 ['x'] 3.00 None"] * 2


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda self, record: self.money.put("much"), "column 'amount' is decimal128(8, 2), and cannot hold 'much'"),
        (lambda self, record: self.pairs.put(("a", 1), 5), "5 (int) is no mapping of n, more"),
        (lambda self, record: self.pairs.get("a"), "'a' is no key of a, b"),
        (lambda self, record: self.money.get("a"), "Store 'money' has one entry, and no key"),
        (lambda self, record: self.pairs.put(1), "put takes a key and a value"),
        (lambda self, record: self.context.store("many"), "there is no store 'many'; there are pairs, money"),
        (lambda self, record: self.context.forward(that=1), "forward: the row has that, and the output what"),
        (lambda self, record: self.context.forward(what=1), "forward: column 'what' is string, and cannot hold 1"),
        (lambda self, record: self.context.schedule("1 second", print), "the callback is no method of the processor"),
        (lambda self, record: self.context.schedule("2 minutes", self.tell), "stream_wait='2 minutes'"),
        (lambda self, record: self.context.schedule(0, self.tell), "the interval is 0"),
        (lambda self, record: self.context.schedule("1 ms", self.tell, clock="sun"), "clock 'sun' does not exist"),
        (lambda self, record: setattr(self, "n", 1), "Does_.n is set after init"),
    ],
)  # fmt: skip
def test_what_a_processor_may_not_do_is_said_with_the_record(does: Does, said: str) -> None:
    with pytest.raises(hr.ProcessorError) as error:
        folded(does, ([(1, "k", 0)], 1))
    assert said in str(error.value)
    assert "Node 'it': Does_.process raises for t, partition 0, offset 0, key {'key': 'k'}" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"to": "b", "n": 1}, "forward: there is no output 'b'; there are a, c"),
        ({"n": 1}, "forward: there is no output None"),
        ({"to": "a", "n": 1, "what": "x"}, "forward: the row has n, what, and output 'a' n"),
        ({"to": "c"}, "forward: the row has no columns, and output 'c' what"),
    ],
)
def test_a_row_goes_to_an_output_that_is_described(row: dict[str, Any], said: str) -> None:
    with pytest.raises(hr.ProcessorError) as error:
        folded(
            lambda self, record: self.context.forward(**row),
            ([(1, "k", 0)], 1),
            output={"a": "n INT", "c": "what STRING"},
        )
    assert said in str(error.value)


def test_a_store_is_not_read_in_init() -> None:
    class Early(hr.Processor):
        def init(self, context: hr.Context) -> None:
            context.store("money").get()

        def process(self, record: hr.Record) -> None:
            raise AssertionError

    node = T.group_by("key").process(Early, output="what STRING", stores=STORES).named("it")
    schema = pa.schema([("key", pa.string()), ("value", pa.int64())])
    operator = operator_of(node, {"result": schema})
    nothing = pa.schema([*schema, *ROW_COLUMNS]).empty_table()
    with pytest.raises(
        hr.ProcessorError, match=r"there is no group in init, which is called once for all groups"
    ):
        Run().increment(operator.steps, nothing, Times(Clock(), Clock()), StateSource(""), batch=0)


def test_a_record_is_tried_as_often_as_described() -> None:
    tried = []

    class Tries(hr.Processor):
        def init(self, context: hr.Context) -> None:
            self.context = context

        def process(self, record: hr.Record) -> None:
            tried.append(record.offset)
            self.context.forward(what="tried")
            if len(tried) < 3:
                raise OSError("away")

    def run(attempts: int) -> int:
        tried.clear()
        node = T.group_by("key").process(
            Tries, output="what STRING", on_error="dead_letter", attempts=attempts
        )
        schema = pa.schema([("key", pa.string()), ("value", pa.int64())])
        operator = operator_of(node.named("it"), {"result": schema})
        full = pa.schema([*schema, *ROW_COLUMNS])
        row = ("k", 1, 1, "t", 0, 0, 0, 0, 9, None, None)
        rows = pa.table([pa.array([v], f.type) for v, f in zip(row, full, strict=True)], schema=full)
        clock = Clock({"t": 1}, {("t", 0): 0}, lowest_ms=0)
        found = Run().increment(
            operator.steps, rows, Times(Clock(), clock, [(1, clock)]), StateSource(""), batch=0
        )
        return sum(each.num_rows for each in found.outputs["results"])

    assert (run(2), len(tried)) == (0, 2)
    assert (run(3), len(tried)) == (1, 3)
