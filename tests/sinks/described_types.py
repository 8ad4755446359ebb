"""Types of columns, values of them, and described schemas of many formats that may take them or not."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

import headrace as hr
from tests.laws.kernel.protobuf_values import Field, compiled, field, message

UTC = dt.UTC
EXTREME_TIMES = (
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    dt.datetime(1970, 1, 1),
)
VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    pa.bool_(): (True, False),
    pa.int8(): (0, -128),
    pa.int16(): (0, -(2**15), 2**15 - 1),
    pa.int32(): (0, 5, -(2**31), 2**31 - 1),
    pa.int64(): (0, 5, 2**31, 2**53 + 1, -(2**63), 2**63 - 1),
    pa.float32(): (0.0, 0.25, math.inf, math.nan, 3.4028234663852886e38),
    pa.float64(): (0.0, 2.0, 2.5, 0.1, 1e300, math.nan, 5e-324, -math.inf, 2.0**63),
    pa.string(): ("", "a", "12", "\0", "e\u0301 \U0001f600", '\\ " \n', "x" * 300),
    pa.binary(): (b"", b"\xff\0"),
    pa.date32(): (dt.date(2024, 5, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)),
    pa.timestamp("us", "UTC"): (
        dt.datetime(2024, 5, 1, 12, 0, 0, 1, UTC),
        dt.datetime(2024, 5, 1, tzinfo=UTC),
        *(each.replace(tzinfo=UTC) for each in EXTREME_TIMES),
    ),
    pa.timestamp("us"): (dt.datetime(2024, 5, 1, 12, 0, 0, 1), dt.datetime(2024, 5, 1), *EXTREME_TIMES),
    pa.decimal128(10, 2): (Decimal("0.00"), Decimal("12.50"), Decimal("-99999999.99"), Decimal("7.00")),
    pa.decimal128(38, 18): (
        Decimal("0"),
        Decimal("-99999999999999999999.999999999999999999"),
        Decimal("1.5"),
    ),
    pa.decimal128(20, 0): (Decimal(0), Decimal(2**64 - 1), Decimal(-1)),
}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


AVRO: dict[pa.DataType, tuple[Any, ...]] = {
    pa.bool_(): ("boolean",),
    pa.int8(): ("int", "long"),
    pa.int16(): ("int", "float"),
    pa.int32(): ("int", "long", "double", decimal(9, 0), {"type": "int", "logicalType": "time-millis"}),
    pa.int64(): ("long", "int", "double", "string", decimal(19, 0), decimal(38, 2)),
    pa.float32(): ("float", "double"),
    pa.float64(): ("double", "float", "int", "long"),
    pa.string(): ("string", "bytes", {"type": "enum", "name": "E", "symbols": ["a"]},
        {"type": "string", "logicalType": "uuid"}),
    pa.binary(): ("bytes", {"type": "fixed", "name": "F", "size": 2}, decimal(4, 2)),
    pa.date32(): ({"type": "int", "logicalType": "date"}, "int"),
    pa.timestamp("us", "UTC"): tuple(
        {"type": "long", "logicalType": f"{each}timestamp-{unit}"} for each in ("", "local-") for unit in ("micros", "millis")
    ),
    pa.timestamp("us"): tuple({"type": "long", "logicalType": f"local-timestamp-{unit}"} for unit in ("micros", "millis")),
    pa.decimal128(10, 2): tuple(decimal(*digits) for digits in ((10, 2), (12, 3), (10, 1), (5, 2), (10, 0), (38, 30))),
    pa.decimal128(38, 18): (decimal(38, 18), decimal(38, 10), decimal(38, 30), "double"),
    pa.decimal128(20, 0): (decimal(20, 0), decimal(38, 18), "long"),
}  # fmt: skip
PROTOBUF: dict[pa.DataType, tuple[int | str, ...]] = {
    pa.bool_(): (Field.TYPE_BOOL,),
    pa.int8(): (Field.TYPE_INT32,),
    pa.int16(): (Field.TYPE_SINT32, Field.TYPE_FIXED64),
    pa.int32(): (Field.TYPE_INT32, Field.TYPE_SINT64, Field.TYPE_UINT32, "google.protobuf.Int32Value"),
    pa.int64(): (
        Field.TYPE_INT64,
        Field.TYPE_INT32,
        Field.TYPE_UINT64,
        Field.TYPE_DOUBLE,
        Field.TYPE_SFIXED64,
        "google.protobuf.Int64Value",
        "google.protobuf.UInt64Value",
        "google.protobuf.Duration",
    ),
    pa.float32(): (Field.TYPE_FLOAT, Field.TYPE_DOUBLE),
    pa.float64(): (Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_INT32, "google.protobuf.DoubleValue"),
    pa.string(): (Field.TYPE_STRING, Field.TYPE_BYTES, "google.protobuf.StringValue"),
    pa.binary(): (Field.TYPE_BYTES, "google.protobuf.BytesValue"),
    pa.date32(): (Field.TYPE_INT32,),
    pa.timestamp("us", "UTC"): ("google.protobuf.Timestamp",),
    pa.timestamp("us"): ("google.protobuf.Timestamp",),
    pa.decimal128(10, 2): (Field.TYPE_DOUBLE, Field.TYPE_STRING),
    pa.decimal128(20, 0): (Field.TYPE_UINT64, Field.TYPE_FIXED64),
}
PROTOBUF_KEYS = {
    pa.string(): (Field.TYPE_STRING,), pa.int32(): (Field.TYPE_INT32, Field.TYPE_SINT64),
    pa.int64(): (Field.TYPE_INT64, Field.TYPE_INT32), pa.bool_(): (Field.TYPE_BOOL,),
}  # fmt: skip
JSON: dict[pa.DataType, tuple[Any, ...]] = {
    pa.bool_(): ({"type": "boolean"},),
    pa.int8(): ({"type": "integer"},),
    pa.int16(): ({"type": "integer"}, {"type": ["integer", "null"]}),
    pa.int32(): ({"type": "integer"}, {"type": "number"}, {"type": "string"}),
    pa.int64(): ({"type": "integer"}, {"type": ["null", "number"]}),
    pa.float32(): ({"type": "number"}, {"type": "integer"}),
    pa.float64(): ({"type": "number"}, {"type": "integer"}, {"type": "string"}),
    pa.string(): ({"type": "string"}, {"type": "integer"}, {"type": "string", "format": "date"}),
    pa.binary(): ({"type": "string"},),
    pa.date32(): ({"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}),
    pa.timestamp("us", "UTC"): ({"type": "string", "format": "date-time"}, {"type": "string"}),
    pa.timestamp("us"): ({"type": "string", "format": "date-time"},),
    pa.decimal128(10, 2): ({"type": "number"}, {"type": "string"}),
}


def some_type(
    random: Random, leaves: dict[pa.DataType, Any], depth: int = 0
) -> tuple[pa.DataType, Callable[[], Any]]:
    """A type, and a function that makes values of it."""
    kind = random.choice(["leaf"] * 4 + (["struct", "list", "map"] if depth < 3 else []))
    if kind == "leaf":
        of = random.choice([*leaves])
        return of, lambda: random.choice([None, *VALUES[of]])
    if kind == "list":
        inner, make = some_type(random, leaves, depth + 1)
        return pa.list_(inner), lambda: random.choice([None, [make() for _ in range(random.randrange(3))]])
    if kind == "map":
        keys = random.choice(
            [each for each in KEYS if each in leaves] if random.random() < 0.2 else [pa.string()]
        )
        inner, make = some_type(random, leaves, depth + 1)

        def entries() -> list[Any]:
            return [(key, make()) for key in random.sample(VALUES[keys], random.randrange(3))]

        return pa.map_(keys, inner), lambda: random.choice([None, entries()])
    parts = {f"f{n}": some_type(random, leaves, depth + 1) for n in range(random.randrange(1, 4))}
    of = pa.struct([(name, part) for name, (part, _) in parts.items()])
    return of, lambda: random.choice([None, {name: make() for name, (_, make) in parts.items()}])


KEYS = (pa.string(), pa.int32(), pa.int64(), pa.bool_())


def shuffled(random: Random, of: pa.DataType) -> list[pa.Field]:
    """The fields of a struct as a schema may have them: in another order, sometimes not all."""
    fields = [each for each in of if random.random() < 0.9]
    return random.sample(fields, len(fields))


def avro_of(random: Random, of: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(of):
        made: Any = {"type": "record", "name": name, "fields": [
            {"name": each.name, "type": avro_of(random, each.type, f"{name}_{each.name}")} for each in shuffled(random, of)
        ]}  # fmt: skip
    elif pa.types.is_list(of):
        made = {"type": "array", "items": avro_of(random, of.value_type, f"{name}_i")}
    elif pa.types.is_map(of):
        made = {"type": "map", "values": avro_of(random, of.item_type, f"{name}_m")}
    else:
        made = random.choice(AVRO[of])
        made = made | {"name": name} if isinstance(made, dict) and "name" in made else made
    return made if "_" in name and random.random() < 0.3 else ["null", made]


def avro(random: Random, columns: pa.Schema) -> hr.Avro:
    (schema,) = [avro_of(random, pa.struct(list(columns)), "R")][0][1:]
    names = {each["name"] for each in schema["fields"]}
    missing = [
        {"name": n, "type": ["null", avro_of(random, columns.field(n).type, f"R_x{n}")]}
        for n in columns.names
        if n not in names
    ]
    for each in missing:  # a column without a field is refused; here all have one
        inner = each["type"][1]
        each["type"] = inner if isinstance(inner, list) else each["type"]
    return hr.Avro(schema=schema | {"fields": [*schema["fields"], *missing]})


def protobuf(random: Random, columns: pa.Schema) -> hr.Protobuf:
    messages: list[Any] = []
    owners: list[str] = []
    nested: dict[str, list[Any]] = {}

    def made(of: pa.DataType, name: str, number: int, path: str) -> Any:
        if pa.types.is_map(of):
            return entries(of, name, number, path)
        repeated = pa.types.is_list(of)
        inner = of.value_type if repeated else of
        while pa.types.is_list(inner) or pa.types.is_map(
            inner
        ):  # a list of these has no field, so the column is refused
            inner = inner.item_type if pa.types.is_map(inner) else inner.value_type
        if pa.types.is_struct(inner):
            kind: Any = f"p.{described(inner, path)}"
        else:
            kind = random.choice(PROTOBUF[inner])
        optional = (
            {"proto3_optional": True}
            if not repeated and isinstance(kind, int) and random.random() < 0.7
            else {}
        )
        found = field(name, number, kind, **optional)
        if repeated:
            found.label = Field.LABEL_REPEATED
        return found

    def entries(of: pa.MapType, name: str, number: int, path: str) -> Any:
        entry = f"{name.capitalize()}Entry"
        item = of.item_type
        while pa.types.is_list(item) or pa.types.is_map(item):
            item = item.item_type if pa.types.is_map(item) else item.value_type
        value = made(item, "value", 2, f"{path}V")
        value.proto3_optional = False
        value.label = Field.LABEL_OPTIONAL  # of a list: the column is refused
        pair = message(entry, field("key", 1, random.choice(PROTOBUF_KEYS[of.key_type])), value)
        pair.options.map_entry = True
        found = field(name, number, f"p.{owners[-1]}.{entry}")
        found.label = Field.LABEL_REPEATED
        nested.setdefault(owners[-1], []).append(pair)
        return found

    def described(of: pa.DataType, name: str, *, whole: bool = False) -> str:
        owners.append(name)
        fields = [*of] if whole else shuffled(random, of)
        own = [
            made(each.type, each.name, n, f"{name}{each.name.upper()}") for n, each in enumerate(fields, 1)
        ]
        messages.append(message(name, *own, nested_type=nested.get(name, ())))
        owners.pop()
        return name

    described(pa.struct(list(columns)), "M", whole=True)
    return hr.Protobuf(compiled(*messages)["p.M"])


def json_of(random: Random, of: pa.DataType, *, whole: bool = False) -> Any:
    if pa.types.is_struct(of):
        fields = [*of] if whole else shuffled(random, of)
        return {"type": "object", "properties": {each.name: json_of(random, each.type) for each in fields}}
    if pa.types.is_list(of):
        return {"type": "array", "items": json_of(random, of.value_type)}
    if pa.types.is_map(of):
        return {"type": "object", "additionalProperties": json_of(random, of.item_type)}
    return random.choice(JSON[of])


def json_schema(random: Random, columns: pa.Schema) -> hr.JsonSchema:
    schema = json_of(random, pa.struct(list(columns)), whole=True)
    return hr.JsonSchema(schema=schema, registry="http://nowhere:1")


def json_text(value: Any, of: pa.DataType) -> str:
    """A value as Spark writes it as JSON: numbers that JSON lacks are texts, decimals keep their digits."""
    if value is None:
        return "null"
    if pa.types.is_struct(of):
        return (
            "{"
            + ", ".join(f"{json.dumps(each.name)}: {json_text(value[each.name], each.type)}" for each in of)
            + "}"
        )
    if pa.types.is_map(of):
        keys = {key: json.dumps(str(key).lower() if isinstance(key, bool) else str(key)) for key, _ in value}
        return "{" + ", ".join(f"{keys[key]}: {json_text(each, of.item_type)}" for key, each in value) + "}"
    if pa.types.is_list(of):
        return "[" + ", ".join(json_text(each, of.value_type) for each in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, dt.datetime):
        return json.dumps(f"{value.year:04}-{value:%m-%dT%H:%M:%S.%f}" + ("Z" if value.tzinfo else ""))
    if isinstance(value, dt.date):
        return json.dumps(f"{value.year:04}-{value:%m-%d}")
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)


def same(one: Any, other: Any) -> bool:
    """True if a value that was read is the one that was written; fields that were not written do not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(name in other and same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if one and isinstance(one[0], tuple):  # a map has no order
            one, other = (sorted(each, key=lambda entry: repr(entry[0])) for each in (one, other))
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, float) != isinstance(other, float) and not {type(one), type(other)} <= {
        int,
        float,
        Decimal,
    }:
        return False
    return bool(one == other)
