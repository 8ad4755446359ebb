"""Which field a registry will not have: Protobuf as text and as descriptors, and JSON Schema."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from headrace.description.formats.evolution.json_schema_changes import changed_property
from headrace.description.formats.evolution.protobuf_changes import changed_field, messages_of
from tests.laws.kernel.protobuf_values import Field, compiled, field, message

pytestmark = pytest.mark.fast

TEXT = """
// Orders.
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
option java_package = "a;b}//";
message Order {
  option deprecated = true;
  reserved 9, 11 to 13; reserved "old";
  string id = 1; /* of the shop; } */
  repeated .shop.Order.Line lines = 2 [json_name = "l", packed = false];
  map<string, int32> counts = 3;
  oneof choice { int64 n = 4; Kind kind = 5; }
  optional google.protobuf.Timestamp at = 6;
  message Line { string sku = 1; }
  enum Kind { NONE = 0; option allow_alias = true; }
}
service Orders { rpc Get (Order) returns (Order) { option idempotency_level = IDEMPOTENT; } }
message Other { int32 n = 0x1; }
"""
FIELDS = {
    "Order": {
        1: ("id", "string"),
        2: ("lines", "repeated Line"),
        3: ("counts", "map<string,int32>"),
        4: ("n", "int64"),
        5: ("kind", "Kind"),
        6: ("at", "Timestamp"),
    },
    "Order.Line": {1: ("sku", "string")},
    "Other": {1: ("n", "int32")},
}


def described(*messages: Any) -> str:
    """A file of messages as registries get it from Confluent's serializers."""
    found = descriptor_pb2.FileDescriptorProto()
    next(iter(compiled(*messages).values())).DESCRIPTOR.file.CopyToProto(found)
    return base64.b64encode(found.SerializeToString()).decode()


def test_a_schemas_text_is_read() -> None:
    assert messages_of(TEXT) == FIELDS


def test_a_descriptor_is_the_same_as_its_text() -> None:
    entry = message(
        "CountsEntry",
        field("key", 1, Field.TYPE_STRING),
        field("value", 2, Field.TYPE_INT32),
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )
    line = message("Line", field("sku", 1, Field.TYPE_STRING))
    many: Any = {"label": Field.LABEL_REPEATED, "type": Field.TYPE_MESSAGE}
    order = message(
        "Order",
        field("id", 1, Field.TYPE_STRING),
        Field(name="lines", number=2, type_name=".p.Order.Line", **many),
        Field(name="counts", number=3, type_name=".p.Order.CountsEntry", **many),
        field("at", 6, "google.protobuf.Timestamp", type=Field.TYPE_MESSAGE),
        nested_type=[entry, line],
    )
    read = messages_of(described(order, message("Other", field("n", 1, Field.TYPE_INT32))))
    assert read == FIELDS | {"Order": {n: f for n, f in FIELDS["Order"].items() if n not in (4, 5)}}


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ("string id = 1;", "int64 id = 1;", "field 'Order.id' is int64, and was string"),
        ("int64 n = 4;", "repeated int64 n = 4;", "field 'Order.n' is repeated int64, and was int64"),
        ("string id = 1;", "", "field 'Order.id' with number 1 is not in it"),
        ("string id = 1;", "string id = 7;", "field 'Order.id' has number 7, and had 1"),
        ("string id = 1;", "string name = 1;", "field 'Order.id' is named 'name' now"),
        ("string sku = 1;", "bytes sku = 1;", "field 'Order.Line.sku' is bytes, and was string"),
        ("message Other", "message Another", "message 'Other' is not in it"),
        ("string id = 1;", "string id = 1; bool b = 7;", "field 'Order.b' is new"),
        ("// Orders.", "// Another remark, in größeren letters.", None),
        (
            "string id = 1; /* of the shop; } */\n  repeated",
            "string name = 1;",
            "field 'Order.lines' is Line, and was repeated Line",
        ),
    ],
)
def test_the_changed_field_of_a_message_is_named(was: str, now: str, why: str | None) -> None:
    assert TEXT.count(was) == 1
    assert changed_field(TEXT, TEXT.replace(was, now)) == why


@pytest.mark.parametrize(
    "text",
    [
        "message M { string id 1; }",
        "message M { string id = x; }",
        "message M { optional id = 1; }",
        "message M",
        "message M {",
        "AAAA",
    ],
)
def test_what_is_no_schema_raises_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        messages_of(text)


OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "n": {"type": ["null", "integer"]},
        "kind": {"enum": ["a", "b"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ('"id": {"type": "string"}', '"id": {"type": "integer"}', "property 'id' is integer, and was string"),
        ('["null", "integer"]', '"integer"', "property 'n' is integer, and was null or integer"),
        ('["null", "integer"]', '["null", "number"]', None),
        ('["a", "b"]', '["a", "c"]', "property 'kind' cannot be \"b\" any more"),
        ('["id"]', '["id", "n"]', "property 'n' is required, and was not"),
        ('{"sku": {"type": "string"}}', '{"sku": {"type": "null"}}', "property 'lines[].sku' is null, and was string"),
        ('{"sku": {"type": "string"}}', '{}', "property 'lines[].sku' is not in it"),
        ('"id": {"type": "string"}', '"id": {"type": "string"}, "b": {}', "property 'b' is new"),
        ('"required"', '"additionalProperties": false, "required"', "the schema takes no further properties, and took them"),
    ],
)  # fmt: skip
def test_the_changed_property_of_a_schema_is_named(was: str, now: str, why: str | None) -> None:
    text = json.dumps(OBJECT)
    assert text.count(was) == 1
    assert changed_property(text, text.replace(was, now)) == why


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, {"type": "integer"}, None),
        ({}, {"type": "integer"}, "property 'n' is integer, and was anything"),
        ({"type": "integer", "required": True}, {"type": "string"}, "property 'n' is string, and was integer"),
        ({"type": "integer"}, {"type": "integer", "required": True, "enum": 5}, None),
        ({"type": "object", "properties": ["a"]}, {"type": "object", "properties": {"a": {}}}, "property 'n.a' is new"),
    ],
)  # fmt: skip
def test_keywords_of_other_forms_say_nothing(was: Any, now: Any, why: str | None) -> None:
    """`required` was a boolean in draft 3; and what else says which values there are is no "anything"."""
    before, after = (json.dumps({"type": "object", "properties": {"n": n}}) for n in (was, now))
    assert changed_property(before, after) == why
