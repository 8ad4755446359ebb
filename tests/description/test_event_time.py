"""Event time by an expression: what the sequencer evaluates, and what it cannot."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.description.event_time import Arithmetic, Call, Field, Header, Number
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

VALUE = "at TIMESTAMP, ms BIGINT, n INT, text STRING, meta STRUCT<at: STRING, Sent: STRUCT<ms: BIGINT>>"


def topic(timestamp: str) -> hr.Topic:
    return hr.Topic("readings", value=VALUE, timestamp=timestamp)


def test_a_field_a_function_of_a_field_or_the_first_that_is_there() -> None:
    assert topic("at").event_time == Field(("at",), "TIMESTAMP")
    assert topic("meta.sent.MS").event_time == Field(("meta", "Sent", "ms"), "BIGINT")
    read = Call("to_timestamp", (Field(("meta", "at"), "STRING"),))
    for sql in ("to_timestamp(meta.at)", "CAST(meta.at AS TIMESTAMP)", "(to_timestamp( META.at ))"):
        assert topic(sql).event_time == read
    seconds = Call("timestamp_seconds", (Field(("n",), "INT"),))
    assert topic("coalesce(at, to_timestamp(meta.at), timestamp_seconds(n))").event_time == Call(
        "coalesce", (Field(("at",), "TIMESTAMP"), read, seconds)
    )


def test_what_is_no_time_is_refused() -> None:
    with refused("timestamp column 'text' is STRING", "TIMESTAMP, or BIGINT in epoch milliseconds"):
        topic("text")
    with refused("timestamp 'meta.at' is STRING"):
        topic("meta.at")
    with refused("timestamp 'coalesce(at, ms)' is BIGINT or TIMESTAMP"):
        topic("coalesce(at, ms)")
    with refused("the function takes texts, and ms is BIGINT"):
        topic("to_timestamp(ms)")
    with refused("the function takes whole numbers, and text is STRING"):
        topic("timestamp_millis(text)")


def test_arithmetic_of_whole_numbers_and_headers() -> None:
    seconds = Field(("ms",), "BIGINT")
    assert topic("ms * 1000").event_time == Arithmetic("*", seconds, Number(1000))
    sent = Call("bigint", (Header("sent"),))
    assert topic("CAST(CAST(record_header('sent') AS STRING) AS BIGINT)").event_time == sent
    assert topic("timestamp_micros(ms DIV 2 - 5)").event_time == Call(
        "timestamp_micros", (Arithmetic("-", Arithmetic("DIV", seconds, Number(2)), Number(5)),)
    )
    with refused("n * 1000 is INT, whose numbers are too small for times", "Write CAST(n AS BIGINT) there."):
        topic("n * 1000")
    with refused("the function takes whole numbers, and text is STRING"):
        topic("text * 1000")
    with refused("1 + 1 is INT"):
        topic("1 + 1")


def test_a_field_that_does_not_exist_is_refused() -> None:
    with refused("timestamp column 'att' does not exist in the value", "Did you mean 'at'"):
        topic("att")
    with refused("field 'att' does not exist in the value; 'meta' has at, Sent", "Did you mean 'at'"):
        topic("to_timestamp(meta.att)")
    with refused("field 'x' does not exist"):
        topic("coalesce(ms.x, ms)")


def test_other_functions_are_refused_by_name_of_those_there_are() -> None:
    for sql in (
        "date_trunc('hour', at)",
        "ms / 1000",
        "ms % 1000",
        "record_header('sent')",
        "to_timestamp(text, 'yyyy')",
        "timestamp_millis(ms, 1)",
    ):
        with refused("no Spark runs where event times are decided", "to_timestamp(text)"):
            topic(sql)
    with refused("is more than an expression"):
        topic("at FROM t")
    with refused("is neither a column nor an expression"):
        topic(7)  # type: ignore[arg-type]
