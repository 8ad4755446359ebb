"""Columns are declared in Spark's DDL, read strictly, and written so that Spark reads them back."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.description import (
    Column,
    is_decimal,
    is_floating,
    is_integral,
    is_numeric,
    parse_ddl,
    quote,
    to_ddl,
)
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


def test_columns_are_read_with_type_and_nullability() -> None:
    assert parse_ddl("sensor_id STRING NOT NULL, value double COMMENT 'in °C'", "value") == (
        Column("sensor_id", "STRING", False),
        Column("value", "DOUBLE", True),
    )


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("int", "INT"),
        ("Integer", "INT"),
        ("long", "BIGINT"),
        ("short", "SMALLINT"),
        ("byte", "TINYINT"),
        ("real", "FLOAT"),
        ("timestamp_ltz", "TIMESTAMP"),
        ("decimal", "DECIMAL(10,0)"),
        ("numeric(5)", "DECIMAL(5,0)"),
        ("dec( 10 , 2 )", "DECIMAL(10,2)"),
        ("array<int>", "ARRAY<INT>"),
        ("map<string,array<long>>", "MAP<STRING, ARRAY<BIGINT>>"),
        ("struct<a:int,`b c`: string not null comment 'x', D struct<e:date>>",
         "STRUCT<a: INT, `b c`: STRING NOT NULL, D: STRUCT<e: DATE>>"),
    ],
)  # fmt: skip
def test_types_have_one_normal_form(written: str, normal: str) -> None:
    assert parse_ddl(f"c {written}", "value")[0].type == normal


def test_backquotes_allow_any_name() -> None:
    names = [column.name for column in parse_ddl("`a b` INT, `c``d` INT, order INT, `été` INT", "value")]
    assert names == ["a b", "c`d", "order", "été"]


def test_a_repeated_name_is_refused() -> None:
    with refused("Topic 'a': value", "'x' occurs twice"):
        parse_ddl("x INT, y INT, x STRING", "Topic 'a': value")


def test_names_that_differ_only_in_case_are_refused() -> None:
    with refused("value", "'Value' and 'vaLue' differ only in case"):
        parse_ddl("Value INT, vaLue INT", "value")
    with refused("STRUCT has two fields 'B'"):
        parse_ddl("a STRUCT<b: INT, B: INT>", "value")


def test_names_with_two_underscores_are_reserved() -> None:
    with refused("'__offset' is reserved", "Call it 'offset'"):
        parse_ddl("__offset INT", "value")
    assert parse_ddl("_offset INT", "value")[0].name == "_offset"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("STRNG", "STRING"),
        ("TEXT", "STRING"),
        ("VARCHAR(10)", "STRING"),
        ("datetime", "TIMESTAMP"),
        ("int64", "BIGINT"),
        ("bool", "BOOLEAN"),
        ("VARIANT", "STRING"),
        ("ARRAY<DUBLE>", "DOUBLE"),
    ],
)
def test_an_unknown_type_is_refused_with_the_one_that_was_meant(written: str, meant: str) -> None:
    with refused("value", "unknown type", "position", f"Did you mean {meant}?", "Types are BOOLEAN"):
        parse_ddl(f"a {written}", "value")


@pytest.mark.parametrize(
    ("ddl", "part"),
    [
        ("a", "expected a type at the end"),
        ("a: INT", "no colon"),
        ("a INT,,b INT", "expected a column name near ',' at position 7"),
        ("a INT,", "expected a column name at the end"),
        ("a INT b INT", "expected a comma between columns near 'b' at position 7"),
        ("a-b INT", "in backquotes"),
        ("1a INT", "in backquotes"),
        ("a ARRAY<INT", "expected '>' at the end"),
        ("a ARRAY", "expected '<'"),
        ("a MAP<INT>", "expected ','"),
        ("a STRUCT<>", "expected a column name"),
        ("a DECIMAL(39,2)", "DECIMAL(39,2) does not exist"),
        ("a DECIMAL(2,3)", "DECIMAL(2,3) does not exist"),
        ("a DECIMAL(x)", "expected a whole number"),
        ("a INT NOT", "expected 'NULL'"),
        ("a INT DEFAULT 3", "DEFAULT is not supported here"),
        ("a STRING COLLATE UTF8_LCASE", "COLLATE is not supported here"),
        ("a INT COMMENT x", "expected the comment in quotation marks"),
        ("`a INT", "expected a column name near '`'"),
        ("` ` INT", "expected a column name"),
    ],
)
def test_ddl_that_spark_cannot_read_is_refused_with_the_place(ddl: str, part: str) -> None:
    with refused("Topic 'a': key", part):
        parse_ddl(ddl, "Topic 'a': key")


@pytest.mark.parametrize("value", ["", "  ", None, 5, ["a INT"]])
def test_what_is_no_ddl_is_refused_with_an_example(value: object) -> None:
    with refused("value", repr(value), "'sensor_id STRING, value DOUBLE'"):
        parse_ddl(value, "value")  # type: ignore[arg-type]


def test_written_ddl_quotes_every_name() -> None:
    columns = (Column("a`b", "INT", False), Column("c", "STRUCT<d: INT>", True))
    assert to_ddl(columns) == "`a``b` INT NOT NULL, `c` STRUCT<d: INT>"
    assert quote("a`b") == "`a``b`"


NAMES = st.text("abXY_ `.é", min_size=1, max_size=6).filter(
    lambda name: not name.startswith("__") and name.strip()
)
TYPES = st.recursive(
    st.sampled_from(["INT", "STRING", "DOUBLE", "DECIMAL(10,2)", "TIMESTAMP"]),
    lambda inner: st.one_of(
        inner.map("ARRAY<{}>".format),
        st.tuples(inner, inner).map(lambda pair: "MAP<{}, {}>".format(*pair)),
        inner.map("STRUCT<a: {}, `b c`: INT NOT NULL>".format),
    ),
    max_leaves=4,
)


@given(
    st.lists(st.builds(Column, NAMES, TYPES, st.booleans()), min_size=1, unique_by=lambda c: c.name.lower())
)
def test_what_is_written_is_read_back(columns: list[Column]) -> None:
    assert parse_ddl(to_ddl(columns), "any") == tuple(columns)


def test_a_column_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Column("a", "INT", True).name = "b"  # type: ignore[misc]


def test_numbers_are_told_by_kind() -> None:
    kinds = {
        type: (is_numeric(type), is_integral(type), is_floating(type), is_decimal(type))
        for type in ("BIGINT", "FLOAT", "DECIMAL(3,1)", "STRING", "ARRAY<INT>", "TIMESTAMP")
    }
    assert kinds == {
        "BIGINT": (True, True, False, False),
        "FLOAT": (True, False, True, False),
        "DECIMAL(3,1)": (True, False, False, True),
        "STRING": (False, False, False, False),
        "ARRAY<INT>": (False, False, False, False),
        "TIMESTAMP": (False, False, False, False),
    }
