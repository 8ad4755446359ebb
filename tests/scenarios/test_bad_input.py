"""Bad input never stops a stream: each kind has a stated outcome, a line in the ledger, and a place to look at it.

What cannot be decoded is a dead letter of the log; what a node cannot use is a dead letter of that node. (Every kind of text
is in tests/laws/kernel/test_sequence_input.py.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.testing import TestDriver
from tests.laws import tables

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

MINUTE = 60_000
AD_2099 = 4_070_908_800_000
USED, LATE, TOMBSTONE, DEAD = "used", "late", "tombstone", "dead_letter"

# Each kind arrives in a partition of its own: key, value, timestamp, fate, reason (the node's: dead for `sums` alone).
KINDS: dict[str, tuple[bytes | None, bytes | None, int, str, str | None]] = {
    "malformed value": (b"s", b"{not json}", 10, DEAD, "malformed value: not JSON"),
    "empty value": (b"s", b"", 10, DEAD, "malformed value: not a JSON object"),
    "two values": (b"s", b'{"x": 1} {"x": 2}', 10, DEAD, "malformed value: more than one JSON object"),
    "invalid UTF-8": (b"s", b'{"note": "\xff"}', 10, DEAD, "malformed value: not UTF-8"),
    "null key": (None, b'{"x": 1}', 10, USED, None),
    "null value": (b"s", None, 10, TOMBSTONE, None),
    "extra field": (b"s", b'{"x": 1, "y": 2}', 10, USED, None),
    "missing field": (b"s", b"{}", 10, USED, None),
    "wrong type": (b"s", b'{"x": "many"}', 10, DEAD, "malformed value: not JSON, or a field does not fit"),
    "integer too large": (b"s", b'{"n": 2147483648}', 10, DEAD, "malformed value: not JSON, or a field does not fit"),
    "other key in value": (b"s", b'{"sensor": "t"}', 10, DEAD, "disagreement: sensor differs"),
    "year 1970": (b"s", b'{"x": 1}', 0, USED, None),
    "before 1970": (b"s", b'{"x": 1}', -1, DEAD, "timestamp: before 1970"),
    "year 2099": (b"s", b'{"x": 1}', AD_2099, DEAD, "timestamp: 2099-01-01 00:00:00 lies more than 1 day ahead"),
    "a megabyte": (b"s", b'{"x": 1, "note": "' + b"m" * 2**20 + b'"}', 10, USED, None),
    "what JSON has no number for": (b"s", b'{"x": NaN}', 10, DEAD, "malformed value: not JSON"),
    "single quotes": (b"s", b"{'x': 1}", 10, DEAD, "malformed value: not JSON"),
    "a leading zero": (b"s", b'{"x": 01}', 10, DEAD, "malformed value: not JSON"),
    "not a number": (b"s", b'{"x": "NaN"}', 10, DEAD, "out of range: x for sum total"),
    "infinity": (b"s", b'{"x": "Infinity"}', 10, DEAD, "out of range: x for sum total"),
    "beyond a sum": (b"s", b'{"x": 1e300}', 10, DEAD, "out of range: x for sum total"),
}  # fmt: skip
PARTITIONS = {kind: partition for partition, kind in enumerate(KINDS)}
OF_THE_NODE = ("group", "out of range")


@pytest.fixture(scope="module")
def driver() -> Iterator[TestDriver]:
    topic = hr.Topic("readings", key="sensor STRING", value="sensor STRING, x DOUBLE, n INT, note STRING")
    windowed = topic.group_by("sensor").window(hr.tumbling("2 minutes"), grace="0 ms")
    sums = (
        windowed.aggregate(n=hr.count(), total=hr.sum("x")).suppress(hr.until_window_closes()).named("sums")
    )
    counts = windowed.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("counts")
    started = TestDriver([sums, counts])
    for kind, (key, value, timestamp_ms, _, _) in KINDS.items():
        started.pipe("readings", key=key, value=value, timestamp_ms=timestamp_ms, partition=PARTITIONS[kind])
    started.cut()
    started.advance_wall_clock("10 minutes")
    started.cut()
    yield started
    started.close()


@pytest.fixture(scope="module")
def dead_letters(driver: TestDriver) -> list[dict[str, Any]]:
    return driver.dead_letters("readings")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_line_in_the_ledger(driver: TestDriver, kind: str) -> None:
    ledger = tables.ledger(row for row in driver.ledger("sums") if row["partition"] == PARTITIONS[kind])
    assert ledger == {(PARTITIONS[kind], KINDS[kind][3]): 1}


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_used_is_kept_with_the_reason(dead_letters: list[dict[str, Any]], kind: str) -> None:
    key, value, _, fate, reason = KINDS[kind]
    mine = [row for row in dead_letters if row["partition"] == PARTITIONS[kind]]
    if fate != DEAD:
        assert mine == []
        return
    assert reason
    of_the_log = [row for row in mine if row["node"] is None]
    if reason.startswith(OF_THE_NODE):
        assert of_the_log == []
        assert {row["node"] for row in mine} == {"sums"}
    else:
        assert [(row["key"], row["value"]) for row in mine] == [(key, value)]
    assert all(row["reason"].startswith(reason) and row["offset"] == 0 for row in mine)


def test_the_rest_is_counted_as_if_nothing_had_happened(driver: TestDriver) -> None:
    usable = [kind for kind, (key, _, _, fate, _) in KINDS.items() if fate == USED and key is not None]
    finals = tables.windows(driver.rows("sums"), "sensor")
    assert finals == {
        ("s", 0): {"n": len(usable), "total": len(usable) - 1.0},
        (None, 0): {"n": 1, "total": 1.0},
    }
    assert finals == tables.windows(driver.backfill("sums"), "sensor")


def test_a_value_beyond_a_sum_is_good_enough_for_a_count(driver: TestDriver) -> None:
    numbers = ["not a number", "infinity", "beyond a sum"]
    usable = [kind for kind, (key, _, _, fate, _) in KINDS.items() if fate == USED and key is not None]
    assert tables.windows(driver.rows("counts"), "sensor") == {
        ("s", 0): {"n": len(usable) + len(numbers)},
        (None, 0): {"n": 1},
    }


def test_a_dead_letter_never_advances_stream_time(drive: Drive) -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="x DOUBLE")
    windowed = topic.group_by().window(hr.tumbling("2 minutes"), grace="0 ms")
    driver = drive(windowed.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("counts"))
    driver.pipe("readings", key="s", value={"x": 1}, timestamp_ms=MINUTE)
    driver.pipe("readings", key="s", value=b"?", timestamp_ms=9 * MINUTE)
    driver.pipe("readings", key="s", value={"x": 1}, timestamp_ms=AD_2099)
    driver.pipe("readings", key="s", value={"x": 1}, timestamp_ms=0)
    driver.cut()
    assert len(driver.rows("counts")) == 0
    assert tables.ledger(driver.ledger("counts")) == {(0, "open"): 2, (0, "dead_letter"): 2}


def test_user_columns_may_have_any_name(drive: Drive) -> None:
    topic = hr.Topic(
        "odd",
        key="key STRING",
        value="value DOUBLE, offset INT, partition STRING, timestamp STRING, topic STRING, kind STRING, `a b.c` STRING",
    )
    node = (
        topic.where("`a b.c` = 'yes' AND kind IS NULL")
        .group_by("key", "offset", "partition", "a b.c")
        .window(hr.tumbling("2 minutes"), grace="0 ms")
        .aggregate(
            value=hr.sum("value"), timestamp=hr.max("timestamp"), topic=hr.count(), records=hr.min("value")
        )
        .suppress(hr.until_window_closes())
        .named("odd_sums")
    )
    driver = drive(node)
    value = {
        "value": 2.5,
        "offset": 7,
        "partition": "north",
        "timestamp": "noon",
        "topic": "t",
        "a b.c": "yes",
    }
    for minute in (1, 1, 9, 1):
        driver.pipe("odd", key="k", value=value, timestamp_ms=minute * MINUTE)
    driver.pipe("odd", key="k", value={**value, "kind": "other"}, timestamp_ms=9 * MINUTE)
    driver.cut()
    (row,) = driver.rows("odd_sums")
    assert {name: row[name] for name in row if not name.startswith("window_")} == {
        "key": "k", "offset": 7, "partition": "north", "a b.c": "yes",
        "value": 5.0, "timestamp": "noon", "topic": 2, "records": 2.5,
    }  # fmt: skip
    driver.check("odd_sums")
    (late,) = driver.late("odd_sums")
    assert (late["topic"], late["partition"], late["offset"], late["key"]) == ("odd", 0, 3, "k")
    assert tables.ledger(driver.ledger("odd_sums")) == {
        (0, "used"): 2, (0, "open"): 1, (0, "late"): 1, (0, "filtered"): 1,
    }  # fmt: skip
    assert len(driver.dead_letters("odd")) == 0


def test_dead_letters_of_a_node_that_reads_a_node_are_shown_by_their_topic_and_by_the_node(
    drive: Drive,
) -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="x DOUBLE, room STRING")
    counts = topic.group_by("room").aggregate(n=hr.count(), total=hr.sum("x", scale=2)).named("counts")
    latest = counts.changes().table().named("latest")
    driver = drive(counts, latest)
    for number, room in enumerate(["a", None, None]):
        driver.pipe("readings", key="s", value={"x": 1, "room": room}, timestamp_ms=number)
        driver.cut()
    shown = driver.fates("latest")
    assert shown["dead_letter"] == 2
    for name in ("latest", "readings"):
        dead = driver.dead_letters(name)
        assert [(row["node"], row["reason"]) for row in dead] == [("latest", "key: room is null")] * 2
    assert driver.why_empty("latest") is None


def test_each_count_leads_to_its_records(drive: Drive) -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="x DOUBLE")
    windowed = topic.where("x < 9").group_by().window(hr.tumbling("2 minutes"), grace="0 ms")
    driver = drive(windowed.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("counts"))
    for value, minute in ((1, 5), (1, 0), (9, 5), (None, 5), ("?", 5)):
        content = None if value is None else b"{" if value == "?" else {"x": value}
        driver.pipe("readings", key="s", value=content, timestamp_ms=minute * MINUTE)
    driver.cut()
    counts = driver.fates("counts")
    assert counts == {"open": 1, "late": 1, "filtered": 1, "tombstone": 1, "dead_letter": 1}
    for fate, records in counts.items():
        assert len(driver.records("counts", fate)) == records, fate
    (late,) = driver.records("counts", "late")
    assert (late["offset"], late["reason"]) == (1, "late by 180.000 s")
    assert driver.why_empty("counts") == (
        f"1 record counts. {driver.waits_for('counts')[0]} Besides, 1 is a dead letter "
        "(headrace dead-letters stream/counts_stream), 1 is filtered by its steps (headrace records counts filtered), "
        "1 is late (headrace records counts late), 1 is a tombstone (headrace records counts tombstone)."
    )
