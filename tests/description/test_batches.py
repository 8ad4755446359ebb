"""Batches described: columns, words, what is refused and how the refusal reads."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.description import Batches
from headrace.description.clocks import WallWait
from headrace.operators.registry import operator_for
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

VISITS = hr.Topic(
    "visits", key="customer STRING", value="visitor STRING, amount DECIMAL(9,2), note MAP<STRING, INT>"
)
OTHERS = hr.Topic(
    "others", key="customer STRING", value="visitor STRING, amount DECIMAL(9,2), note MAP<STRING, INT>"
)


def described(**changes: Any) -> Batches:
    arguments: dict[str, Any] = {"max_records": 3, "max_wait": "10 seconds", "collect": ["visitor", "AMOUNT"]}
    return VISITS.group_by().batch(**(arguments | changes)).named("visit_batches")


def test_a_node_of_batches_says_what_it_is() -> None:
    node = described()
    assert node.columns == (
        "customer",
        "batch_id",
        "events",
        "records",
        "opened_at",
        "closed_at",
        "closed_by",
    )
    assert {c.name: c.type for c in node.result_columns}[
        "events"
    ] == "ARRAY<STRUCT<`visitor`: STRING, `amount`: DECIMAL(9,2)>>"
    assert (node.key, node.day_column, node.topics) == (("batch_id",), "opened_at", (VISITS,))
    assert (node.longest_wait_ms, node.longest_wall_wait_ms) == (0, 10_000)
    assert described(max_wait=None).longest_wall_wait_ms == 0
    assert node.in_words == (
        "One row per customer and batch; a batch closes at 3 records or 10 seconds after its first record."
    )


def test_batches_on_a_beat_wait_for_its_next_moment() -> None:
    node = described(max_wait=None, max_records=100, every="10 seconds")
    assert (node.longest_wall_wait_ms, node.wall_waits) == (10_000, (WallWait(10_000, 10_000),))
    assert node.in_words.endswith("a batch closes at 100 records or each full 10 seconds.")


def test_every_limit_and_collected_column_is_part_of_the_fingerprint() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"max_records": 4}, {"max_wait": "11 seconds"}, {"max_bytes": 10}, {"collect": ["visitor"]},
        {"max_wait": None, "every": "10 seconds"}, {"max_wait": None, "every": "5 seconds"},
    ]  # fmt: skip
    assert len({described(**change).fingerprint() for change in changes}) == len(changes)
    assert described(max_wait=10_000).fingerprint() == described().fingerprint()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_records": None, "max_wait": None}, "no limit"),
        ({"max_records": 0}, "max_records 0"),
        ({"max_records": True}, "max_records True"),
        ({"max_records": 2.0}, "max_records 2.0"),
        ({"max_bytes": -1}, "max_bytes -1"),
        ({"max_wait": "0 seconds"}, "max_wait 0"),
        ({"max_wait": "soon"}, "'soon'"),
        ({"max_wait": None, "every": 0}, "every 0"),
        ({"every": "10 seconds"}, "a batch has one"),
        ({"collect": []}, "collect names no column"),
        ({"collect": "visitor"}, "collect 'visitor'"),
        ({"collect": ["visitr"]}, "column 'visitr' does not exist"),
        ({"collect": ["visitor", "VISITOR"]}, "'visitor' occurs twice"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value_and_a_fix(changes: dict[str, Any], words: str) -> None:
    with refused(words):
        described(**changes)


def test_a_stream_of_several_topics_is_batched_in_one_order_of_all() -> None:
    one, several = described(), VISITS.merge(OTHERS).group_by().batch(max_records=3, collect=["visitor"])
    assert several.named("merged").topics == (VISITS, OTHERS)
    assert [node.reads_together for node in (one, several.named("merged"))] == [False, True]
    assert "cut one by one" in operator_for(several.named("merged")).uncuttable


def test_a_group_column_named_like_a_column_of_batches_is_refused() -> None:
    grouped = VISITS.with_column("Events", "visitor").group_by("Events")
    with refused("with_column('its_Events'"):
        grouped.batch(max_records=1, collect=["visitor"])
