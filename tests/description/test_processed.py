"""Processors: what can be described, what is refused, and what tells one from another."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

import headrace as hr
from headrace.description import Processed, parse_ddl
from headrace.description.processor import freeze
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

LINES = hr.Topic("lines", key="author STRING", value="word STRING")
COUNT = hr.value_store("count", "n BIGINT")
OUTPUT = "word STRING, n BIGINT"


class CountWords(hr.Processor):
    """How often each word came."""

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def init(self, context: hr.Context) -> None:
        self.context, self.seen = context, []  # type: ignore[var-annotated]

    def process(self, record: hr.Record) -> None:
        self.n = 1


class Closing(CountWords):
    """The same, and it closes."""

    def close(self) -> None:
        self.context.forward(word="", n=0)


class Unfinished(hr.Processor):
    """It has no process."""


class Tables(hr.BatchProcessor):
    """It takes tables."""

    def process_batch(self, records: Any) -> None:
        self.n = 1


class Untabled(hr.BatchProcessor):
    """It has no process_batch."""


def counted(processor: Any = CountWords, **options: Any) -> Processed:
    made = {"output": OUTPUT, "stores": [COUNT], "order": "log", **options}
    return LINES.group_by("word").process(processor, **made)


def test_a_processor_gives_the_columns_of_its_output_and_goes_on_as_a_stream() -> None:
    node = counted().named("word_counts")
    assert node.columns == ("word", "n")
    assert node.key == ("word",)
    assert node.where("n > 3").columns == ("word", "n")
    assert LINES.process(CountWords, output=OUTPUT).key == ()
    assert node.in_words == "One row for each that CountWords forwards, by word."


def test_waits_are_those_of_its_timers_and_a_close_concerns_drains() -> None:
    node = counted(stream_wait="1 minute", wall_wait="5 seconds")
    assert (node.longest_wait_ms, node.longest_wall_wait_ms) == (60_000, 5_000)
    assert (counted().longest_wait_ms, counted().longest_wall_wait_ms) == (0, 0)
    assert (counted().closes, counted(Closing).closes, counted(partial(Closing, 3)).closes) == (
        False,
        True,
        True,
    )


def test_what_alters_its_rows_alters_its_fingerprint() -> None:
    made = [
        counted(),
        counted(Closing),
        counted(partial(CountWords, 2)),
        counted(partial(CountWords, 3)),
        counted(stores=()),
        counted(stores=[hr.value_store("count", "n INT")]),
        counted(output="word STRING, n INT"),
        counted(wall_wait="1 ms"),
        counted(stream_wait="1 ms"),
        counted(on_error="dead_letter"),
        LINES.group_by("author").process(CountWords, output=OUTPUT, stores=[COUNT]),
        LINES.process(CountWords, output=OUTPUT, stores=[COUNT]),
    ]
    assert len({node.fingerprint() for node in made}) == len(made)
    assert counted().fingerprint() == counted().fingerprint()


def test_a_global_table_is_read_record_by_record_as_of_the_log() -> None:
    words = hr.Topic("words", key="word STRING", value="language STRING, weight DOUBLE")
    table = hr.global_table("words", words.table())
    node = counted(stores=[COUNT, table]).named("word_counts")
    assert [store.name for store in node.stores] == ["count"]
    assert [topic.name for topic in node.topics] == ["lines", "words"]
    assert (
        node.in_words == "One row for each that CountWords forwards, by word, with the global tables words."
    )
    assert "latest row by word, by position" in str(hr.describe(node))
    others = [
        counted(),
        counted(stores=[COUNT, hr.global_table("words", words.table("timestamp"))]),
        counted(stores=[COUNT, hr.global_table("others", words.table())]),
    ]
    assert len({each.fingerprint() for each in (node, *others)}) == 4
    assert node.fingerprint() == counted(stores=[table, COUNT]).fingerprint()
    with refused("there are two stores 'count'"):
        counted(stores=[COUNT, hr.global_table("count", words.table())])
    with refused("global table 'words': it is read as of the log, and order is 'time'"):
        counted(stores=[COUNT, table], order="time")
    with refused("it reads a topic of the stream, too, so it would keep records that on_error='dead_letter'"):
        lines = LINES.group_by("word").aggregate(n=hr.count())
        counted(stores=[hr.global_table("lines", LINES.table())], on_error="dead_letter")
    counted(stores=[hr.global_table("lines", lines)], on_error="dead_letter")
    with refused("Tables takes tables of records, and cannot read it", "stream.lookup(table, on='…')"):
        counted(Tables, stores=[table])
    with refused("global table 'words': the function told cannot read it"):
        counted(hr.processor(told, state="n INT"), stores=[table])
    with refused("process: stores is not a list of stores"):
        counted(stores=table)


def told(key: Any, records: Any, state: Any) -> Any:
    yield {"word": LIMIT, "n": 3}


def test_what_is_no_processor_is_refused() -> None:
    with refused("process: ", "is no class of hr.Processor"):
        counted(lambda: None)
    with refused("Unfinished has no method process"):
        counted(Unfinished)
    with refused("process: output", "unknown type 'NUMBER'"):
        counted(output="n NUMBER")
    with refused("stream_wait 0 is no interval"):
        counted(stream_wait=0)
    with refused("on_error 'skip' does not exist; there are stop, dead_letter"):
        counted(on_error="skip")
    with refused("attempts 0 (int) is no number of attempts"):
        counted(attempts=0)
    with refused("is no store", "hr.key_value_store"):
        counted(stores=["counts"])
    with refused("there are two stores 'count'"):
        counted(stores=[COUNT, COUNT])
    with refused("column 'word' of store 'counts' is a column of the group, too"):
        counted(stores=[hr.key_value_store("counts", "word STRING", "n BIGINT")])
    assert counted(output="n BIGINT").to(hr.PostgresSink("words")).key == ()


def test_a_store_has_a_name_and_a_key_with_an_order() -> None:
    store = hr.key_value_store("by_day", "day DATE, n INT", "total DECIMAL(10,2)")
    assert store.columns == (*parse_ddl("day DATE, n INT", "key"), *parse_ddl("total DECIMAL(10,2)", "value"))
    with refused("'By day' is not a name"):
        hr.key_value_store("By day", "day DATE", "n INT")
    with refused("key column 'x' is DOUBLE, which has no plain order"):
        hr.key_value_store("by_x", "x DOUBLE", "n INT")
    with refused("'n' occurs twice"):
        hr.key_value_store("twice", "n INT", "n INT")


def test_a_store_by_time_has_times_in_its_key_and_says_how_long_entries_live() -> None:
    windows = hr.window_store("seen", "word STRING", "n INT", retention="1 hour")
    assert windows.key == parse_ddl("word STRING, window_start TIMESTAMP", "key")
    sessions = hr.session_store("visits", "", "n INT", retention=1_000)
    assert sessions.key == parse_ddl("session_start TIMESTAMP, session_end TIMESTAMP", "key")
    short = hr.key_value_store("seen", "word STRING", "n INT", ttl="1 hour")
    plain = hr.key_value_store("seen", "word STRING", "n INT")
    assert (windows.lives_ms, sessions.lives_ms, short.lives_ms, plain.lives_ms) == (
        3_600_000,
        1_000,
        3_600_000,
        None,
    )
    assert {"kind", "lives_ms"} - {*plain.rules()} == {
        "kind",
        "lives_ms",
    }  # as it was before there were others
    stores = [
        hr.window_store("seen", "id STRING", "n INT", retention="1 hour"),
        hr.window_store("seen", "id STRING", "n INT", retention="2 hours"),
        hr.key_value_store("seen", "id STRING", "n INT", ttl="1 hour"),
        hr.key_value_store("seen", "id STRING", "n INT"),
        hr.session_store("seen", "id STRING", "n INT", retention="1 hour"),
    ]
    assert len({counted(stores=[each]).fingerprint() for each in stores}) == len(stores)
    with refused("ttl 0 keeps nothing"):
        hr.value_store("seen", "n INT", ttl=0)
    with refused("retention 0 keeps nothing"):
        hr.window_store("seen", "", "n INT", retention=0)


def test_a_function_has_its_state_and_what_takes_several_records_has_no_timers() -> None:
    def told(key: Any, records: Any, state: Any) -> Any:
        yield {"word": LIMIT, "n": halved(3)}

    def other(key: Any, records: Any, state: Any) -> Any:
        yield {"word": LIMIT, "n": 3}

    node = counted(hr.processor(told, state="n INT"), stores=[]).named("words")
    assert [store.name for store in node.stores] == ["state"]
    assert node.in_words == "One row for each that told forwards, by word."
    name = told.__qualname__
    assert {*node.code["parts"]} == {f"{name}{each}" for each in ("", "/LIMIT", "/halved", "/halved/LIMIT")}
    of = [
        hr.processor(told, state="n INT"),
        hr.processor(told, state="n BIGINT"),
        hr.processor(other, state="n INT"),
    ]
    assert len({counted(each, stores=[]).fingerprint() for each in of}) == 3
    with refused("the function told has its state, and no other stores"):
        counted(hr.processor(told, state="n INT"))
    with refused("processor: 5 (int) is no function"):
        hr.processor(5, state="n INT")  # type: ignore[arg-type]
    with refused("unknown type 'NUMBER'"):
        hr.processor(told, state="n NUMBER")
    with refused("stream_wait is given, but told can have no timers"):
        counted(hr.processor(told, state="n INT"), stores=[], stream_wait="5 ms")
    with refused("wall_wait is given, but Tables can have no timers"):
        counted(Tables, wall_wait="5 ms")
    with refused("entries of store 'seen' end by stream time, and Tables takes tables"):
        counted(Tables, stores=[hr.value_store("seen", "n INT", ttl="5 ms")])
    with refused("Untabled has no method process_batch"):
        counted(Untabled)


def test_several_outputs_are_one_table_and_each_is_a_stream() -> None:
    outputs = {"known": "word STRING, n INT", "unknown": "word STRING, at TIMESTAMP"}
    node = counted(output=outputs).named("words")
    assert [(each.name, each.type) for each in node.output_columns] == [
        ("output", "STRING"),
        ("word", "STRING"),
        ("n", "INT"),
        ("at", "TIMESTAMP"),
    ]
    assert node.key == ("word", "output")
    assert counted(output={"a": "word STRING", "b": "n INT"}).key == ()
    other = node.output_stream("unknown")
    assert other.columns == ("word", "at")
    assert node.output_stream("unknown") == node.where("output = 'unknown'").select("`word`", "`at`")
    assert (
        node.fingerprint()
        == counted(output=outputs).fingerprint()
        != counted(output={"known": "word STRING"}).fingerprint()
    )
    with refused("there is no output 'no'; there are known, unknown"):
        node.output_stream("no")
    with refused("there is no output 'known'; there are "):
        counted().output_stream("known")
    with refused("output 'Un known' is not a name in lower-case letters"):
        counted(output={"Un known": "n INT"})
    with refused("process: output {} (dict) is neither columns nor a mapping"):
        counted(output={})
    with refused("output 'a' has a column 'To', which says to which output a row goes"):
        counted(output={"a": "To INT"})
    with refused("column 'n' is INT in one output and BIGINT in 'b'"):
        counted(output={"a": "n INT", "b": "n BIGINT"})


def test_the_order_of_time_waits_for_records_and_does_not_go_with_everything() -> None:
    assert counted(order="time").longest_wait_ms == 1  # so that ticks bring a silent log to its last record
    assert counted(order="time", stream_wait=9_000).longest_wait_ms == 9_000
    assert counted(order="time").fingerprint() != counted().fingerprint()
    with refused("order 'up' does not exist; there are log, time"):
        counted(order="up")
    with refused("order is 'time', and on_error is 'dead_letter'"):
        counted(order="time", on_error="dead_letter")
    with refused("order is 'time', and Tables takes tables"):
        counted(Tables, order="time")


def test_an_attribute_does_not_change_after_init_and_the_error_names_the_store_to_use() -> None:
    made = CountWords()
    made.init(None)  # type: ignore[arg-type]
    made.seen.append(1)
    freeze(made)
    with pytest.raises(hr.ProcessorError, match=r"(?s)CountWords.n is set after init.*hr.value_store\('n'"):
        made.process(None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        made.seen.append(2)
    with pytest.raises(hr.ProcessorError, match=r"CountWords.least is set after init"):
        del made.least


LIMIT = 3


def halved(n: int) -> int:
    return n // LIMIT


def doubled(n: int) -> int:
    return n * 2


class Calls(CountWords):
    """It calls functions of its module and of others."""

    def process(self, record: hr.Record) -> None:
        def inner(n: int) -> int:
            return halved(n) + math.floor(n)

        self.context.forward(word=record["word"], n=inner(5))


@pytest.mark.parametrize(("name", "other"), [("halved", doubled), ("LIMIT", 4)])
def test_what_a_processor_calls_in_its_package_alters_its_fingerprint(
    monkeypatch: pytest.MonkeyPatch, name: str, other: Any
) -> None:
    before, parts = counted(Calls).fingerprint(), counted(Calls).code["parts"]
    assert {"Calls.process/halved", "Calls.process/halved/LIMIT"} <= {*parts}
    monkeypatch.setitem(globals(), name, other)
    assert counted(Calls).fingerprint() != before
    monkeypatch.undo()
    assert counted(Calls).fingerprint() == before
