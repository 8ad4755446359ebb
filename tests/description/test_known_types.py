"""Mistakes in expressions that the described types tell, before Spark starts."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast
VIEWS = hr.Topic(
    "views",
    key="user STRING",
    value="page STRUCT<url: STRING, words: INT, at: STRUCT<zone: STRING>>, ts BIGINT NOT NULL, ok BOOLEAN, "
    "tags ARRAY<STRUCT<tag: STRING>>, notes MAP<STRING, STRUCT<n: INT>>, labels ARRAY<STRING>",
)


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("page.ur = 'a'", ["where(\"page.ur = 'a'\")", "'page' has no field 'ur'; its fields are url, words, at", "Did you mean 'url'?"]),
        ("page.at.zon = 'a'", ["'page.at' has no field 'zon'", "'zone'"]),
        ("ts.day > 3", ["'ts' is BIGINT, and has no field 'day'"]),
        ("tags.tagg IS NOT NULL", ["'tags' has no field 'tagg'", "'tag'"]),
        ("labels.size > 3", ["'labels' is ARRAY<STRING>, and has no field 'size'", "An element of it is labels[0]."]),
        ("page > 5", ["'page' is STRUCT<", "cannot be compared with 5", "page.url, page.words, page.at"]),
        ("ok AND tags = 'a'", ["'tags' is ARRAY<", "cannot be compared with 'a'", "elements"]),
        ("page['ur'] = 'a'", ["'page' has no field 'ur'", "Did you mean 'url'?"]),
        ("tags['tagg'] IS NOT NULL", ["'tags' has no field 'tagg'", "'tag'"]),
        ("ts AND ok", ["ts is BIGINT, and no condition", "Compare it, for example ts > 0"]),
        ("ok OR NOT page.words", ["page.words is INT, and no condition"]),
        ("IF(ok AND notes.a.n, 1, 2) = 1", ["notes.a.n is INT, and no condition"]),
        ("ts", ["the expression is BIGINT, and no condition", "ts > 0"]),
        ("page.words", ["the expression is INT, and no condition"]),
        ("ts + 1", ["and no condition"]),
        ("(5)", ["and no condition"]),
        ("timestampdiff(SECONDS, TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02') > 3", ["'SECONDS' in ", "is no unit of time, at position 15", "Did you mean 'SECOND'?"]),
        ("page.url = NULL", ["page.url = NULL is never true", "Write page.url IS NULL."]),
        ("NULL <> ts", ["is never true", "Write ts IS NOT NULL."]),
        ("uper(page.url) = 'A'", ["there is no function uper", "Did you mean 'upper'?"]),
        ("round(page.words, ts) > 1", ["round takes its number of decimal places from 'ts'", "^^", "for example round(page.words, 2)"]),
        ("bround(ts, page.words) > 1", ["bround takes its number of decimal places from 'words'"]),
        ("round(ok) > 1", ["round rounds ok, which is BOOLEAN and no number", "Round a number."]),
        ("round(tags, 2) > 1", ["round rounds tags, which is ARRAY<"]),
        ("round(TIMESTAMP '2026-01-01') > 1", ["which is TIMESTAMP and no number", "date_trunc"]),
        ("zzzzqqq(ts) > 1", ["there is no function zzzzqqq", "Spark SQL"]),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_fix(expression: str, parts: list[str]) -> None:
    with refused(*parts):
        VIEWS.where(expression)
    with refused(*parts[1:]):
        VIEWS.table().where(expression)
    with refused(*parts[1:]):
        VIEWS.branch("ok", expression)


@pytest.mark.parametrize(
    "expression",
    [
        "round(ts, 1 + 1) > 1", "round(page.url) > 1", "round(NULL, NULL) > 1", "bround(ts) > 1",
        "ok", "page.url = 'a'", "PAGE.URL = 'a'", "page.at.zone IS NULL", "tags.tag IS NOT NULL", "tags[0].tag = 'a'",
        "notes.a.n > 1", "notes['a'].n > 1", "exists(tags, each -> each.tag = 'a')", "page = page", "NOT ok",
        "coalesce(ok, false)", "CAST(ts AS BOOLEAN)", "upper(page.url) = 'A'", "timestampdiff(DAY, now_, now_) > 1",
        "record_partition() = 1", "page.at IS NOT NULL", "if(ok, true, false)", "array_contains(tags.tag, 'a')",
        "url_encode(page.url) <> ''", "TRIM(BOTH 'x' FROM page.url) = ''", "date_add(DATE'2026-01-01', 3) > DATE'2026-01-01'",
    ],
)  # fmt: skip
def test_what_may_be_right_is_left_to_spark(expression: str) -> None:
    VIEWS.with_column("now_", "TIMESTAMP'2026-01-01 00:00:00'").where(expression)


def test_a_parameter_of_a_lambda_is_no_column_of_that_name() -> None:
    flags = hr.Topic("flags", value="x BIGINT, flags ARRAY<BOOLEAN>")
    assert flags.where("exists(flags, x -> x AND true)")


def test_a_field_has_the_type_that_is_described() -> None:
    chosen = VIEWS.select("user", "page.at.zone AS zone", "tags.tag AS names", "notes.a AS note")
    types = {name: column.type for name, column in chosen.shape.types.items()}
    assert types == {"user": "STRING", "zone": "STRING", "names": "ARRAY<STRING>", "note": "STRUCT<n: INT>"}
    bracketed = VIEWS.select("page['at']['zone'] AS zone", "tags['tag'] AS names", "notes['a'] AS note")
    assert {name: column.type for name, column in bracketed.shape.types.items()} == {
        name: types[name] for name in ("zone", "names", "note")
    }
    countries = chosen.select("user", "zone").named("zones")
    assert countries.where("zone = 'a'").group_by("zone").aggregate(n=hr.count()).named("n").columns == (
        "zone",
        "n",
    )
    totals = (
        VIEWS.with_column("zone", "page.at.zone").group_by("zone").aggregate(n=hr.count()).named("totals")
    )
    assert totals.changes().where("zone = 'a'")  # before: only Spark knows the type of 'zone'


@pytest.mark.parametrize(
    "sql", ["to_json(m) AS j", "TO_JSON(struct(m)) AS j", "to_json(map(CAST(k AS BINARY), 1)) AS j"]
)
def test_json_of_binary_keys_is_refused_for_it_holds_addresses(sql: str) -> None:
    topic = hr.Topic("t", key="k STRING", value="m MAP<BINARY, INT>, t MAP<STRING, INT>")
    with refused("to_json writes the keys of a map as text, and these are BINARY", "hex(k)"):
        topic.select("k", sql)


def test_json_of_other_keys_is_not_refused() -> None:
    topic = hr.Topic("t", key="k STRING", value="m MAP<BINARY, INT>, t MAP<STRING, INT>")
    by_text = "to_json(transform_keys(m, (k, v) -> hex(k)))"
    for sql in ("to_json(t)", by_text, "to_json(struct(k))", "to_json(map('a', CAST(k AS BINARY)))"):
        topic.with_column("j", sql)
