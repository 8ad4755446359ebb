"""Ordinary expressions have a type while they are described, and a mistyped one is an error then."""

from __future__ import annotations

import pytest

import headrace as hr

pytestmark = pytest.mark.fast
ORDERS = hr.Topic(
    "orders",
    key="id STRING",
    value="customer STRUCT<name: STRING, age: INT>, items ARRAY<STRUCT<sku: STRING, quantity: INT>>, price DECIMAL(12,2), "
    "quantity INT, weight DOUBLE, status STRING, ok BOOLEAN, at BIGINT, day DATE, moment TIMESTAMP, tags ARRAY<STRING>",
)
TYPES = {
    "'x'": "STRING", "1": "INT", "quantity + 1": "INT", "price * quantity": "DECIMAL(23,2)", "weight / 2": "DOUBLE",
    "quantity / 2": "DOUBLE", "quantity % 2": "INT", "-weight": "DOUBLE", "quantity > 3 AND ok": "BOOLEAN",
    "status IS NOT NULL": "BOOLEAN", "status IN ('a', 'b')": "BOOLEAN", "status LIKE 'a%'": "BOOLEAN",
    "upper(status)": "STRING", "length(status)": "INT", "concat(status, '-', id)": "STRING",
    "substring(status, 1, 2)": "STRING", "split_part(status, '/', 1)": "STRING", "coalesce(status, 'none')": "STRING",
    "CASE WHEN ok THEN 1 ELSE 2.5 END": "DECIMAL(11,1)", "IF(ok, quantity, 0)": "INT", "nullif(quantity, 0)": "INT",
    "greatest(quantity, 1)": "INT", "round(price, 1)": "DECIMAL(12,1)", "abs(weight)": "DOUBLE",
    "customer.age": "INT", "items[0].quantity": "INT", "size(tags)": "INT",
    "struct(id, price)": "STRUCT<id: STRING, price: DECIMAL(12,2)>", "timestamp_millis(at)": "TIMESTAMP",
    "date_trunc('HOUR', moment)": "TIMESTAMP", "CAST(quantity AS BIGINT)": "BIGINT",
}  # fmt: skip
MISTAKES = {
    "statuss = 'a'": "column 'statuss' does not exist",
    "uper(status) = 'A'": "there is no function uper",
    "customer.nam = 'a'": "'customer' has no field 'nam'",
    "quantity": "the expression is INT, and no condition",
    "ok AND quantity": "quantity is INT, and no condition",
    "sum(quantity) > 3": "is an aggregate",
    "length() > 3": "has no argument",
    "status = NULL": "is never true",
    "customer = 'a'": "cannot be compared with 'a'",
    "tags.size > 3": "has no field 'size'",
    "moment > now()": "depends on the run",
    "status = 'a": "cannot read the expression",
}


@pytest.mark.parametrize("sql", TYPES)
def test_an_ordinary_expression_has_the_type_that_spark_gives_it(sql: str) -> None:
    """Five of these 31 had a type before."""
    column = ORDERS.with_column("made", sql).shape.type_of("made")
    assert column is not None
    assert column.type == TYPES[sql]


@pytest.mark.parametrize("sql", MISTAKES)
def test_a_newcomers_mistake_is_an_error_of_the_description(sql: str) -> None:
    """One of these twelve was refused before; the others stopped a stream, or Spark refused them."""
    with pytest.raises(hr.DescriptionError) as refused:
        ORDERS.where(sql)
    assert MISTAKES[sql] in str(refused.value)
