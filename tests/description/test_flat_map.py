"""Flat maps: what makes several rows of one record, and what cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from tests.description.refusal import refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.fast

LINES = hr.Topic("lines", key="id STRING", value="text STRING, tags ARRAY<INT>, times MAP<STRING, INT>")
WORDS = LINES.flat_map("split(text, ' ') AS word")


def types(node: object) -> dict[str, str]:
    return {column.name: column.type for column in node.result_columns}  # type: ignore[attr-defined]


def test_the_columns_stay_and_the_element_is_one_more_or_stands_for_its_array() -> None:
    assert WORDS.columns == ("id", "text", "tags", "times", "word")
    assert types(WORDS)["word"] == "STRING"
    assert types(LINES.flat_map("tags", ordinal="n")) == {
        "id": "STRING", "text": "STRING", "tags": "INT", "times": "MAP<STRING, INT>", "n": "INT",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("array", "element"),
    [
        ("filter(split(text, ' '), w -> w <> '') AS word", "STRING"),
        ("array_distinct((tags)) AS word", "INT"),
        ("CAST(from_json(text, 'ARRAY<STRUCT<a: INT>>') AS ARRAY<STRUCT<a: INT>>) AS word", "STRUCT<a: INT>"),
        ("map_keys(times) AS word", "STRING"),
        ("zip_with(tags, tags, (a, b) -> a + b) AS word", "computed"),
    ],
)
def test_the_type_of_an_element_is_known_where_that_of_the_array_is(array: str, element: str) -> None:
    assert types(LINES.flat_map(array))["word"] == element


def test_explode_is_understood() -> None:
    for written in ("explode(split(text, ' ')) AS word", "EXPLODE( split(text, ' ') ) word"):
        assert types(LINES.flat_map(written)) == types(WORDS)
    assert LINES.flat_map("explode(split(text, ' ')) AS word").fingerprint() == WORDS.fingerprint()


def test_what_is_no_array_or_has_no_name_is_refused() -> None:
    with refused("flat_map: 'text' is STRING, not an array."):
        LINES.flat_map("text")
    with refused("has no name", "AS word"):
        LINES.flat_map("split(text, ' ')")
    with refused("column 'txet' does not exist"):
        LINES.flat_map("split(txet, ' ') AS word")
    for several in ("explode(tags) + 1 AS n", "posexplode(tags) AS n", "explode_outer(tags) AS n"):
        with refused("makes several rows of one record", "Write .flat_map("):
            LINES.flat_map(several)
    with refused("makes several rows of one record", "Write .flat_map("):
        LINES.select("explode(tags) AS n")


def test_the_ordinal_needs_a_name_of_its_own() -> None:
    with refused("flat_map: 'word' occurs twice"):
        LINES.flat_map("split(text, ' ') AS word", ordinal="word")
    with refused("'__n' is reserved"):
        LINES.flat_map("split(text, ' ') AS word", ordinal="__n")


def test_the_key_is_the_record_key_and_the_number_of_the_row() -> None:
    table = hr.PostgresSink("words")
    assert WORDS.to(table).key == ("id",)
    assert LINES.flat_map("split(text, ' ') AS word", ordinal="n").to(table).key == ("id", "n")
    assert WORDS.to(hr.KafkaSink("words")).key == ("id",)


def test_columns_that_nobody_knows_are_refused() -> None:
    def odd(rows: DataFrame) -> DataFrame:
        return rows

    with refused("flat_map", "a transform leaves the columns unknown"):
        LINES.transform(odd).flat_map("split(text, ' ') AS word")


def test_the_array_and_the_ordinal_are_part_of_the_rules() -> None:
    others = (
        LINES.flat_map("split(text, ',') AS word"),
        LINES.flat_map("split(text, ' ') AS word", ordinal="n"),
        LINES.with_column("word", "split(text, ' ')"),
    )
    made = [each if hasattr(each, "fingerprint") else each.named("w") for each in others]
    assert len({each.fingerprint() for each in (*made, WORDS)}) == 4


def test_what_is_made_of_the_rows_reads_the_node() -> None:
    words = LINES.select("id", "text").flat_map("split(text, ' ') AS word").named("words")
    counts = words.group_by("word").aggregate(n=hr.count()).named("word_counts")
    assert str(hr.describe(counts)).splitlines() == [
        "word_counts",
        "└─ by word: n = count()",
        "   └─ words",
        "      └─ flat map split(text, ' ') AS word  (by Spark)",
        "         └─ select id, text",
        "            └─ topic lines (key id; text, tags, times)",
    ]
