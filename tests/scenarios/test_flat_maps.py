"""Lines become words, which are counted: the rows of a record are taken together, whatever happens in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.quality import check_node
from tests.rows import columns
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

LINES = hr.Topic("lines", key="id STRING", value="text STRING, tags ARRAY<INT>", idle_timeout=None)
WORDS = LINES.select("id", "text").flat_map("split(text, ' ') AS word", ordinal="number")
# A map with two equal keys raises.
ENTRY = "str_to_map(concat('a:1,', if(tag = 0, 'a', 'b'), ':', tag))['b']"
TAGS = LINES.flat_map(f"explode(transform(tags, tag -> {ENTRY})) AS entry")


# The same, with steps that have no name: the words, and the windows that are final.
SAME_COUNTS = WORDS.where("word <> ''").group_by("word").aggregate(n=hr.count()).named("same_counts")
RARE = (
    WORDS.group_by("word")
    .window(hr.tumbling("2 minutes"), grace="0 minutes")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .where("n < 2")
    .named("rare")
)


class Sent:
    """A sink that keeps each row by its place, and counts how often each comes."""

    name = "sent"

    def __init__(self) -> None:
        self.rows: dict[tuple[int, bytes], str] = {}

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        for row in rows.to_pylist():
            self.rows[row["__sequence"], bytes(row["__place"])] = row["word"]


def test_each_element_is_a_row_and_each_record_is_counted_once(drive: Drive, tmp_path: Path) -> None:
    sent = Sent()
    words, tags = WORDS.to(sent).named("words"), TAGS.named("tags")
    counts = words.where("word <> ''").group_by("word").aggregate(n=hr.count()).named("word_counts")
    driver = drive(words, tags, counts, SAME_COUNTS, RARE)
    lines: list[tuple[str | None, list[int | None] | None]] = [
        ("to be or", [4, None]), ("not to be", []), (None, None), ("", [5]), ("be", [5, 0]),
    ]  # fmt: skip
    for number, (text, some) in enumerate(lines):
        value: Any = {"text": text, "tags": some}
        driver.pipe(
            "lines", key=f"k{number}", value=value, timestamp_ms=number * MINUTE, partition=number % 2
        )
        if number == 1:
            driver.crash("after outputs", "words")
            driver.cut()
    driver.pipe("lines", key="k9", value=None, timestamp_ms=9 * MINUTE)
    driver.cut()
    assert sorted(columns(driver.rows("words"), "id", "number", "word")) == [
        ("k0", 0, "to"), ("k0", 1, "be"), ("k0", 2, "or"), ("k1", 0, "not"), ("k1", 1, "to"), ("k1", 2, "be"),
        ("k3", 0, ""), ("k4", 0, "be"),
    ]  # fmt: skip
    assert [word for _, word in sorted(sent.rows.items())] == [
        "to", "be", "or", "not", "to", "be", "be", "",
    ]  # fmt: skip
    assert driver.fates("words") == {"used": 4, "filtered": 1, "tombstone": 1}
    # A record of which one element raises gives no row at all.
    assert [row["entry"] for row in driver.rows("tags")] == [None, "4", "5"]
    assert driver.fates("tags") == {"used": 2, "filtered": 2, "tombstone": 1, "dead_letter": 1}
    (refused,) = [row for row in driver.dead_letters("lines") if row["node"] == "tags"]
    assert "flat_map(" in refused["reason"]
    found = {row["word"]: row["n"] for row in driver.rows("word_counts")}
    assert found == {"to": 2, "be": 3, "or": 1, "not": 1}
    assert driver.fates("word_counts") == {"used": 7, "filtered": 1}
    assert driver.rows("same_counts") == driver.rows("word_counts")
    assert driver.fates("same_counts") == {"used": 7, "filtered": 1}
    # The first two minutes are over in both partitions: "to" and "be" came twice.
    assert sorted((row["word"], row["n"]) for row in driver.rows("rare")) == [("not", 1), ("or", 1)]
    assert driver.fates("rare") == {"used": 2, "filtered": 2}
    for node in (words, RARE):
        driver.check(node.required_name)
    judged = check_node(driver.spark, driver._lake, words, str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []


def test_a_transform_that_explodes_and_an_array_that_is_none_are_refused(drive: Drive) -> None:
    def exploded(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("*", "explode(split(text, ' ')) AS word")

    made = LINES.transform(exploded, columns="id STRING, text STRING, tags ARRAY<INT>, word STRING")
    with pytest.raises(hr.DescriptionError, match=r"'exploded'\) makes several rows of one record"):
        drive(made.named("exploded")).cut()
    with pytest.raises(
        hr.DescriptionError, match="flat_map: 'upper\\(text\\) AS word' is STRING, not an array"
    ):
        drive(LINES.flat_map("upper(text) AS word").named("upper")).cut()
