"""Expressions are read before anything runs, and see one record alone."""

from __future__ import annotations

import pytest

from headrace.description import parse_expression
from headrace.errors import DescriptionError
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("value >= 0", {"value"}),
        ("address.city = 'x'", {"address"}),
        ("a.b.c.d.e.f > 1", {"a"}),
        ("xs[i].y", {"xs", "i"}),
        ("`a b`.c + `d``e`", {"a b", "d`e"}),
        ("transform(xs, x -> transform(x.ys, y -> y + x.z + w))", {"xs", "w"}),
        ("exists(xs, x -> x > 1)", {"xs"}),
        ("timestampdiff(HOUR, a, b)", {"a", "b"}),
        ("extract(year FROM ts)", {"ts"}),
        ("cast(a AS struct<user: int>)", {"a"}),
        (
            "user = 'ann' AND timestamp > 3 AND offset > partition",
            {"user", "timestamp", "offset", "partition"},
        ),
        ("comment", {"comment"}),
        ("s LIKE ANY ('a', 'b')", {"s"}),
        ("a -- not b", {"a"}),
        ("'now()'", set()),
        ("1", set()),
    ],
)
def test_the_columns_that_it_reads_are_found(sql: str, columns: set[str]) -> None:
    assert parse_expression(sql, "where").columns == columns


@pytest.mark.parametrize(
    ("sql", "name", "source"),
    [
        ("value", "value", "value"),
        ("value AS v", "v", "value"),
        ("value v", "v", "value"),
        ("(value) AS v", "v", None),
        ("address.city", "city", None),
        ("a.b.c.d.e.f", "f", None),
        ("address.city AS town", "town", None),
        ("value + 1 AS `next one`", "next one", None),
        ("value + 1", "", None),
        ("xs[0].y", "", None),
        ("(value)", "", None),
    ],
)
def test_the_column_that_it_makes_is_named_as_spark_names_it(sql: str, name: str, source: str | None) -> None:
    expression = parse_expression(sql, "select")
    assert (expression.name, expression.source) == (name, source)


@pytest.mark.parametrize(
    ("sql", "function"),
    [
        ("rand() < 0.1", "rand"),
        ("uuid()", "uuid"),
        ("ts < now()", "now"),
        ("ts < current_timestamp()", "current_timestamp"),
        ("ts < CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("d = current_date", "current_date"),
        ("monotonically_increasing_id()", "monotonically_increasing_id"),
        ("spark_partition_id()", "spark_partition_id"),
        ("input_file_name()", "input_file_name"),
        ("unix_timestamp( )", "unix_timestamp"),
        ("coalesce(a, shuffle(b))", "shuffle"),
        ("transform(xs, x -> x + rand())", "rand"),
        ("`rand`()", "rand"),
        ("system.builtin.rand()", "rand"),
    ],
)
def test_what_depends_on_the_run_is_refused(sql: str, function: str) -> None:
    with refused("where", sql, f"{function} in", "depends on the run", "function of the log alone"):
        parse_expression(sql, "where")


@pytest.mark.parametrize(
    "sql", ["unix_timestamp(ts)", "`current_date`", "a.current_date", "x AS `now`", "'rand()'"]
)
def test_what_only_looks_like_it_depends_on_the_run_is_accepted(sql: str) -> None:
    assert parse_expression(sql, "where").sql == sql


@pytest.mark.parametrize(
    "sql", ["ts < 'now'", "date 'today'", "CAST(' Yesterday ' AS DATE)", "timestamp 'now UTC'"]
)
def test_times_that_spark_reads_as_its_own_are_refused(sql: str) -> None:
    with refused("where", "depends on the run", "CAST(", "AS STRING)"):
        parse_expression(sql, "where")


def test_such_a_word_is_accepted_where_it_is_said_to_be_text() -> None:
    assert parse_expression("status = CAST('today' AS STRING)", "where").columns == {"status"}


@pytest.mark.parametrize(
    "sql", ["sum(value) > 3", "count(*)", "first(a)", "any(a)", "collect_list(a)", "MAX (a)"]
)
def test_an_aggregate_is_refused(sql: str) -> None:
    with refused("where", "is an aggregate", ".aggregate(…)"):
        parse_expression(sql, "where")


@pytest.mark.parametrize("sql", ["row_number() OVER (ORDER BY a)", "lag(a)", "abs(a) OVER (PARTITION BY b)"])
def test_a_window_function_is_refused(sql: str) -> None:
    with refused("where", "looks at other records"):
        parse_expression(sql, "where")


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("explode(xs)", "several rows"),
        ("window(ts, '1 minute')", "hr.tumbling"),
        ("a IN (SELECT 1)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("*", "Name the columns"),
        ("t.*", "Name the columns"),
        (":x", "parameter"),
        ("a AS (b, c)", "several columns"),
        ("a, b", "2 expressions"),
        ("a FROM t", "more than an expression"),
        ("a; DROP TABLE t", "more than an expression"),
        ("a;", "more than an expression"),
    ],
)
def test_what_is_not_one_expression_over_one_record_is_refused(sql: str, part: str) -> None:
    with refused("select", part):
        parse_expression(sql, "select")


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("value >=", "near '>=' at position 7"),
        ("value > 1 AND\n  (a", "at line 2, position 4"),
        ("a b c", "near 'c' at position 5"),
        ("case", "put it in backquotes"),
        ("a = 'x", "quotation mark"),
    ],
)
def test_a_syntax_error_shows_the_text_and_the_place(sql: str, place: str) -> None:
    with refused("where", repr(sql), place):
        parse_expression(sql, "where")


@pytest.mark.parametrize("value", ["", " ", None, 5, ["a"]])
def test_what_is_no_text_is_refused_with_an_example(value: object) -> None:
    with refused("where", repr(value), "'value >= 0'"):
        parse_expression(value, "where")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "function", "instead"),
    [
        ("to_number(s, '999') > 1", "to_number", "try_to_number"),
        ("unbase64(s)", "unbase64", "try_to_binary(…, 'base64')"),
        ("url_decode(s)", "url_decode", "try_url_decode"),
        ("element_at(xs, 0)", "element_at", "try_element_at, or get(array, index)"),
        ("coalesce(PARSE_JSON(s), x)", "PARSE_JSON", "try_parse_json"),
        ("variant_get(v, '$.a', 'int')", "variant_get", "try_variant_get"),
        ("transform(xs, x -> to_binary(x, 'hex'))", "to_binary", "try_to_binary"),
    ],
)
def test_a_function_that_raises_is_refused_if_it_has_a_form_that_does_not(
    sql: str, function: str, instead: str
) -> None:
    with refused("where", f"{function} in", "raises for some inputs", f"Use {instead}"):
        parse_expression(sql, "where")


@pytest.mark.parametrize("sql", ["assert_true(x > 1)", "raise_error('no')"])
def test_what_raises_on_purpose_is_refused(sql: str) -> None:
    with refused("where", "raises", ".where(…)"):
        parse_expression(sql, "where")


@pytest.mark.parametrize("sql", ["try_to_number(s, '999')", "str_to_map(s)", "a RLIKE b", "to_date(s)"])
def test_other_functions_are_accepted(sql: str) -> None:
    assert parse_expression(sql, "where").sql == sql


@pytest.mark.parametrize(
    ("sql", "has", "takes"),
    [
        ("left(a)", "left in 'left(a)' has 1 argument at position 1", "left takes 2 arguments"),
        ("1 + length(a, b)", "has 2 arguments at position 5", "length takes 1 argument"),
        ("coalesce()", "has no arguments", "coalesce takes 1 or more arguments"),
        ("IF(a > 1, 2)", "IF in 'IF(a > 1, 2)' has 2 arguments", "if takes 3 arguments"),
        ("substring(concat(a, b))", "substring in", "substring takes 2 to 3 arguments"),
        ("split_part(a, ',')", "split_part in", "split_part takes 3 arguments"),
        ("map(a, b, c)", "map in", "pairs of arguments"),
        ("greatest(a)", "greatest in", "2 or more arguments"),
        ("transform(a)", "transform in", "2 arguments"),
        ("date_add(DAY, 1, a, b)", "has 4 arguments", "date_add takes 2 arguments"),
    ],
)
def test_a_call_with_too_few_or_too_many_arguments_says_what_the_function_takes(
    sql: str, has: str, takes: str
) -> None:
    """Before, a stream of Spark found it, or sqlglot said that it cannot read ')'."""
    with refused("where", has, takes):
        parse_expression(sql, "where")


@pytest.mark.parametrize(
    "sql",
    [
        "substring(a FROM 2 FOR 3)",
        "overlay(a PLACING b FROM 1)",
        "trim(BOTH ' ' FROM a)",
        "position('a' IN b)",
        "extract(YEAR FROM a)",
        "dateadd(DAY, 1, a)",
        "date_diff(DAY, a, b)",
        "CAST(a AS DECIMAL(10, 2))",
        "a::DECIMAL(10, 2)",
        "coalesce(a::MAP<STRING, INT>, b)",
        "if(a IN (1, 2, 3), b, c[0])",
        "concat_ws(',', a, b, c)",
        "transform(a, (x, i) -> x + i)",
        "`left`",
        "aggregate(a, 0, (x, y) -> x + y, x -> x)",
    ],
)
def test_calls_with_words_and_with_units_are_as_spark_reads_them(sql: str) -> None:
    assert parse_expression(sql, "select").columns


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("device NOT NULL", "Write device IS NOT NULL."),
        ("n > 5 AND `a b` NOT NULL", "IS NOT NULL."),
        ("device NOTNULL", "Write device IS NOT NULL."),
        ("device isnull", "Write device IS NULL."),
        ("n in 5", "Write n IN (5)."),
    ],
)
def test_sql_of_other_databases_that_spark_cannot_read_is_refused(sql: str, hint: str) -> None:
    with pytest.raises(DescriptionError, match="cannot read the expression") as error:
        parse_expression(sql, "where")
    assert hint in str(error.value)


@pytest.mark.parametrize(
    "sql",
    [
        "device IS NOT NULL",
        "NOT NULL",
        "isnull(device) OR isnotnull(device)",
        "n IN (5, 6)",
        "NOT n IN (5)",
        "from_json(x, 'a INT NOT NULL').a",
        "cast(a AS STRUCT<b: INT NOT NULL, c: DECIMAL(9,2) NOT NULL>)",
    ],
)
def test_nulls_and_lists_as_spark_writes_them_are_accepted(sql: str) -> None:
    assert parse_expression(sql, "where").sql == sql
