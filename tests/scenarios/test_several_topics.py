"""Several topics of one description as one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.preflight import kafka as preflight
from headrace.settings import KafkaSettings
from tests.description.refusal import refused

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

NAMES = ("orders-at", "orders-de")
COLUMNS: dict[str, Any] = {"key": "id STRING", "value": "amount INT", "idle_timeout": None}
MINUTE = 60_000


def test_topics_of_one_list_are_the_merge_of_them() -> None:
    stream = hr.topics(NAMES, pattern="orders-.*", **COLUMNS)
    merged = hr.Topic(NAMES[0], **COLUMNS).merge(hr.Topic(NAMES[1], **COLUMNS))
    nodes = [each.group_by().aggregate(n=hr.count()).named("sums") for each in (stream, merged)]
    assert len({node.fingerprint() for node in nodes}) == 1
    assert stream.topics == merged.topics  # a pattern changes no topic
    (one,) = hr.topics(["orders-at"], **COLUMNS).topics
    assert one.name == "orders-at"


def test_each_topic_has_a_time_of_its_own_and_the_windows_wait_for_both(drive: Drive) -> None:
    """By hand: windows of ten minutes. The first topic is at 25; the second is at 9, so nothing closes until it is at 12."""
    stream = hr.topics(NAMES, **COLUMNS).with_column("shop", "record_topic()")
    sums = (
        stream.group_by("id")
        .window(hr.tumbling("10 minutes"), grace="0 minutes")
        .aggregate(n=hr.count(), total=hr.sum("amount"), shops=hr.count_distinct("shop"))
        .suppress(hr.until_window_closes())
        .named("sums")
    )
    driver = drive(sums, stream.named("rows"))

    def order(topic: str, minute: int, amount: int) -> None:
        driver.pipe(topic, key="a", value={"amount": amount}, timestamp_ms=minute * MINUTE)

    order("orders-at", 1, 1)
    order("orders-at", 25, 2)
    order("orders-de", 9, 4)
    driver.cut()
    assert driver.rows("sums") == []
    driver.crash("after outputs")
    order("orders-de", 12, 8)
    driver.cut()
    (row,) = driver.rows("sums")
    assert (row["n"], row["total"], row["shops"]) == (2, 5, 2)
    assert sorted((row["shop"], row["amount"]) for row in driver.rows("rows")) == [
        ("orders-at", 1),
        ("orders-at", 2),
        ("orders-de", 4),
        ("orders-de", 8),
    ]
    driver.check("sums")
    driver.check("rows")


def test_a_topic_of_the_broker_that_matches_and_is_not_read_is_found() -> None:
    broker = preflight._Broker(KafkaSettings(bootstrap_servers="away:1"), {})
    broker.topics = (*NAMES, "orders", "__consumer_offsets")
    said = []
    for names in (NAMES[:1], NAMES):
        broker.wanted = {name: [] for name in names}
        node = hr.topics(names, pattern="orders-.*", **COLUMNS).named("orders")
        (found,) = preflight._families([node], broker)
        said.append((found.ok, found.result))
    assert said == [
        (False, "orders-de matches, and nothing reads it."),
        (True, "2 topic(s) match, and all are read"),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": []}, "is no list of names"),
        ({"names": "orders"}, "is no list of names"),
        ({"names": [1, 2]}, "is no list of names"),
        ({"names": ["a", "a"]}, "'a' occurs twice.\nWrite each topic once"),
        ({"names": ["a"], "pattern": 3}, "pattern 3"),
        ({"names": ["a", "b"], "pattern": "a"}, "'b' does not match the pattern 'a'"),
        ({"names": ["a"], "pattern": "("}, "is no regular expression"),
        ({"names": ["a/b"]}, "a/b"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], words: str) -> None:
    with refused(words):
        hr.topics(**arguments, **COLUMNS)
