"""What a processor is given of a record's headers, and waits that follow from the timers of its `init`."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.description import Processed
from tests.description.refusal import refused

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

CALLS = hr.Topic("calls", key="caller STRING", value="page STRING", idle_timeout="1 minute")
OUTPUT = "caller STRING, page STRING, headers STRING"


class Traced(hr.Processor):
    """Gives the headers of each record as text, and the columns that it has besides."""

    def init(self, context: hr.Context) -> None:
        self.context = context

    def process(self, record: hr.Record) -> None:
        words = ", ".join(f"{name}={value!r}" for name, value in record.headers)
        self.context.forward(**record, headers=words)


class Asks(hr.Processor):
    """A helper outside of the class reads the headers."""

    def init(self, context: hr.Context) -> None:
        self.context = context

    def process(self, record: hr.Record) -> None:
        self.context.forward(**record, headers=newest(record))


class AsksAndSays(Asks):
    """The same, and it says so."""

    reads_headers = True


class Reminds(hr.Processor):
    """Gives a row each minute of stream time and each 20 seconds of the wall clock, from a group's first record on."""

    def __init__(self, longest: str = "1 minute") -> None:
        self.longest = longest

    def init(self, context: hr.Context) -> None:
        self.context = context
        context.schedule(self.longest, self.remind, name="long")
        context.schedule("1 second", self.remind, name="short")
        context.schedule("20 seconds", self.remind, clock="wall", name="wall", once=True)
        context.cancel("short")

    def process(self, record: hr.Record) -> None:
        """Nothing."""

    def remind(self, moment: dt.datetime) -> None:
        self.context.forward(caller=self.context.key["caller"], page="", headers="")


class Breaks(hr.Processor):
    """Its `init` raises where it is described."""

    def init(self, context: hr.Context) -> None:
        context.schedule("1 second", self.rest)
        raise OSError("no such host")

    def process(self, record: hr.Record) -> None:
        """Nothing."""

    def rest(self, moment: dt.datetime) -> None:
        """Nothing."""


def newest(record: hr.Record) -> str:
    return record.headers[-1][0]


def by_caller(processor: object, **more: str) -> Processed:
    made = CALLS.group_by("caller").process(processor, output=OUTPUT, **more)  # type: ignore[arg-type]
    return made.named("answers")


@pytest.mark.parametrize("more", [{}, {"order": "time"}])
def test_a_processor_reads_the_headers_of_a_record_and_they_are_no_column(
    drive: Drive, more: dict[str, str]
) -> None:
    """By hand: two headers of one name stay two, in their order; a record without any has none."""
    driver = drive(by_caller(Traced, **more))
    driver.pipe(
        "calls", key="a", value={"page": "p"}, timestamp_ms=0, headers={"trace": b"\x00\x01", "zone": "eu"}
    )
    driver.pipe("calls", key="a", value={"page": "q"}, timestamp_ms=1_000)
    driver.cut()
    driver.pipe("calls", key="b", value={"page": "r"}, timestamp_ms=9_000, headers={"zone": ""})
    driver.pipe("calls", key="b", value={"page": "s"}, timestamp_ms=99_000)
    driver.cut()
    rows = [(row["caller"], row["page"], row["headers"]) for row in driver.rows("answers")]
    expected = [
        ("a", "p", "trace=b'\\x00\\x01', zone=b'eu'"), ("a", "q", ""), ("b", "r", "zone=b''"), ("b", "s", ""),
    ]  # fmt: skip
    assert rows[:3] == expected[:3]
    assert rows == expected or more  # in the order of time the newest record waits
    driver.check("answers")


def test_headers_that_no_method_names_are_read_if_the_class_says_so(drive: Drive) -> None:
    driver = drive(by_caller(AsksAndSays))
    driver.pipe("calls", key="a", value={"page": "p"}, timestamp_ms=0, headers={"zone": "eu"})
    driver.cut()
    assert [row["headers"] for row in driver.rows("answers")] == ["zone"]
    driver.check("answers")
    silent = drive(by_caller(Asks))
    silent.pipe("calls", key="a", value={"page": "p"}, timestamp_ms=0, headers={"zone": "eu"})
    with pytest.raises(hr.ProcessorError, match="reads_headers = True"):
        silent.cut()


def test_headers_are_read_by_nodes_whose_processors_name_them_alone() -> None:
    (mine,) = by_caller(Traced).stream.branches
    (other,) = by_caller(Reminds).stream.branches
    assert [len(branch.steps) for branch in (mine, other)] == [1, 0]
    with refused("is a column of the stream"):
        CALLS.with_column("headers_of_record", "page").group_by("caller").process(Traced, output=OUTPUT)


def test_a_node_waits_as_long_as_the_timers_of_init_and_no_one_says_it_again(drive: Drive) -> None:
    """By hand: a's record is at 0 s; b's at 70 s moves the clock past a's minute, and 20 seconds later both are due."""
    node = by_caller(Reminds)
    assert (node.longest_wait_ms, node.longest_wall_wait_ms) == (60_000, 20_000)
    assert by_caller(partial(Reminds, "5 minutes")).longest_wait_ms == 300_000
    assert by_caller(Reminds, stream_wait="1 hour").longest_wait_ms == 3_600_000
    assert by_caller(Reminds, stream_wait="1 ms").fingerprint() == node.fingerprint()
    driver = drive(node)
    for caller, second in (("a", 0), ("b", 70)):
        driver.pipe("calls", key=caller, value={"page": "p"}, timestamp_ms=second * 1_000)
    driver.cut()
    assert [row["caller"] for row in driver.rows("answers")] == ["a"]
    driver.advance_wall_clock("20 seconds")
    driver.cut()
    assert [row["caller"] for row in driver.rows("answers")] == ["a", "a", "b"]
    driver.check("answers")


def test_an_init_that_raises_while_a_node_is_described_schedules_nothing() -> None:
    assert by_caller(Breaks).longest_wait_ms == 0


class Plain(hr.Processor):
    """It has no `init`."""

    def process(self, record: hr.Record) -> None:
        self.context.forward(**record, headers="")


class Misspells(hr.Processor):
    """It takes a column for an attribute."""

    def process(self, record: hr.Record) -> None:
        record.page  # type: ignore[attr-defined]  # noqa: B018


def test_without_an_init_there_is_the_context_and_a_column_as_an_attribute_is_explained(drive: Drive) -> None:
    """Before: 'Plain' object has no attribute 'context', and 'Record' object has no attribute 'page'."""
    for processor in (Plain, Misspells):
        driver = drive(by_caller(processor))
        driver.pipe("calls", key="a", value={"page": "p"}, timestamp_ms=0)
        if processor is Plain:
            driver.cut()
            assert [row["page"] for row in driver.rows("answers")] == ["p"]
            driver.check("answers")
        else:
            with pytest.raises(hr.ProcessorError, match=r"write record\['page'\]"):
                driver.cut()
