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


def counted(processor: Any = CountWords, **options: Any) -> Processed:
    return LINES.group_by("word").process(processor, **{"output": OUTPUT, "stores": [COUNT], **options})


def test_a_processor_gives_the_columns_of_its_output_and_goes_on_as_a_stream() -> None:
    node = counted().named("word_counts")
    assert node.columns == ("word", "n")
    assert node.identity == ("word",)
    assert node.where("n > 3").columns == ("word", "n")
    assert LINES.process(CountWords, output=OUTPUT).identity == ()
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
        counted(wall_wait=1),
        counted(stream_wait=1),
        counted(on_error="dead_letter"),
        LINES.group_by("author").process(CountWords, output=OUTPUT, stores=[COUNT]),
        LINES.process(CountWords, output=OUTPUT, stores=[COUNT]),
    ]
    assert len({node.fingerprint() for node in made}) == len(made)
    assert counted().fingerprint() == counted().fingerprint()


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
    with refused("the rows of this processor have no key, by which sink 'postgres-words'"):
        counted(output="n BIGINT").to(hr.PostgresSink("words"))


def test_a_store_has_a_name_and_a_key_with_an_order() -> None:
    store = hr.key_value_store("by_day", "day DATE, n INT", "total DECIMAL(10,2)")
    assert store.columns == (*parse_ddl("day DATE, n INT", "key"), *parse_ddl("total DECIMAL(10,2)", "value"))
    with refused("'By day' is not a name"):
        hr.key_value_store("By day", "day DATE", "n INT")
    with refused("key column 'x' is DOUBLE, which has no plain order"):
        hr.key_value_store("by_x", "x DOUBLE", "n INT")
    with refused("'n' occurs twice"):
        hr.key_value_store("twice", "n INT", "n INT")


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
    before, rules = counted(Calls).fingerprint(), counted(Calls).rules()["processor"]
    assert {*rules["calls"]["Calls"]} == {"LIMIT", "halved"}
    monkeypatch.setitem(globals(), name, other)
    assert counted(Calls).fingerprint() != before
    monkeypatch.undo()
    assert counted(Calls).fingerprint() == before
