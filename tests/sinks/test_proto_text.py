"""A file of Protobuf as text says the same as its descriptor."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from headrace.description.formats.evolution.protobuf_changes import messages_of
from headrace.sinks.encoding.proto_text import proto_text
from tests.laws.kernel.protobuf_values import Field, field, message, some_message

pytestmark = pytest.mark.fast

PARTS = descriptor_pb2.DescriptorProto
EVERYTHING = """syntax = "proto3";
package p.q;
import "other.proto";
import public "shown.proto";
option java_package = "com.p";
option optimize_for = SPEED;
option java_multiple_files = true;
message Order {
  option deprecated = true;
  string id = 1;
  optional int32 n = 2 [deprecated = true];
  repeated .p.q.Order.Line lines = 3 [json_name = "rows"];
  map<string, .p.q.Order.Line> by_name = 4;
  repeated sint64 many_numbers = 5 [packed = false];
  oneof paid_by {
    bool cash = 6;
    .p.q.Order.Kind card = 7;
  }
  message Line {
    bytes content = 1;
  }
  enum Kind {
    option allow_alias = true;
    NONE = 0;
    NOTHING = 0;
    CREDIT = -2 [deprecated = true];
    reserved 5, 7 to max;
    reserved "OLD";
  }
  reserved 9, 11 to 13, 100 to max;
  reserved "former", "earlier";
}
service Orders {
  rpc Take (.p.q.Order) returns (stream .p.q.Order.Line);
}
"""
OLDER = """syntax = "proto2";
message Old {
  required string id = 1 [default = "a \\"b\\""];
  optional double much = 2 [default = inf];
  optional bytes raw = 3 [default = "\\001\\377"];
  repeated float few = 4;
  extensions 100 to 199;
}
"""


def everything() -> Any:
    of = descriptor_pb2
    line = message("Line", field("content", 1, Field.TYPE_BYTES))
    entry = message(
        "ByNameEntry",
        field("key", 1, Field.TYPE_STRING),
        field("value", 2, "p.q.Order.Line", type=Field.TYPE_MESSAGE),
    )
    entry.options.map_entry = True
    kind = of.EnumDescriptorProto(name="Kind", reserved_name=["OLD"])
    for name, number in (("NONE", 0), ("NOTHING", 0), ("CREDIT", -2)):
        kind.value.add(name=name, number=number)
    kind.value[2].options.deprecated = kind.options.allow_alias = True
    kind.reserved_range.add(start=5, end=5)
    kind.reserved_range.add(start=7, end=2**31 - 1)
    repeated = {"label": Field.LABEL_REPEATED, "type": Field.TYPE_MESSAGE}

    def many(name: str, number: int, of: str, **more: Any) -> Any:
        made = field(name, number, of, type=Field.TYPE_MESSAGE, **more)
        made.label = repeated["label"]
        return made

    order = PARTS(
        name="Order", nested_type=[line, entry], enum_type=[kind], reserved_name=["former", "earlier"]
    )
    order.oneof_decl.add(name="paid_by")
    order.oneof_decl.add(name="_n")
    numbers = field("many_numbers", 5, Field.TYPE_SINT64)
    numbers.label, numbers.options.packed = Field.LABEL_REPEATED, False
    n = field("n", 2, Field.TYPE_INT32, proto3_optional=True, oneof_index=1)
    n.options.deprecated = True
    order.field.extend(
        [
            field("id", 1, Field.TYPE_STRING, json_name="id"),
            n,
            many("lines", 3, "p.q.Order.Line", json_name="rows"),
            many("by_name", 4, "p.q.Order.ByNameEntry", json_name="byName"),
            numbers,
            field("cash", 6, Field.TYPE_BOOL, oneof_index=0),
            field("card", 7, "p.q.Order.Kind", type=Field.TYPE_ENUM, oneof_index=0),
        ]
    )
    order.options.deprecated = True
    for start, end in ((9, 10), (11, 14), (100, 1 << 29)):
        order.reserved_range.add(start=start, end=end)
    file = of.FileDescriptorProto(
        name="p.proto",
        package="p.q",
        syntax="proto3",
        dependency=["other.proto", "shown.proto"],
        public_dependency=[1],
    )
    file.options.java_package, file.options.java_multiple_files = "com.p", True
    file.options.optimize_for = of.FileOptions.SPEED
    file.message_type.append(order)
    take = file.service.add(name="Orders").method.add(
        name="Take", input_type=".p.q.Order", output_type=".p.q.Order.Line"
    )
    take.server_streaming = True
    return file


def older() -> Any:
    made = PARTS(
        name="Old",
        field=[
            field("id", 1, Field.TYPE_STRING, default_value='a "b"'),
            field("much", 2, Field.TYPE_DOUBLE, default_value="inf"),
            field("raw", 3, Field.TYPE_BYTES, default_value="\\001\\377"),
            field("few", 4, Field.TYPE_FLOAT),
        ],
    )
    made.field[0].label, made.field[3].label = Field.LABEL_REQUIRED, Field.LABEL_REPEATED
    made.extension_range.add(start=100, end=200)
    return descriptor_pb2.FileDescriptorProto(name="old.proto", message_type=[made])


def test_a_file_is_written_as_people_write_it() -> None:
    assert proto_text(everything()) == EVERYTHING
    assert proto_text(older()) == OLDER


@pytest.mark.parametrize("seed", range(20))
def test_the_text_has_the_fields_of_the_descriptor(seed: int) -> None:
    random = Random(seed)
    made = [some_message(random)[0] for _ in range(3)]
    for number, each in enumerate(made):
        each.name = f"M{number}"
    made[0].nested_type.extend(made[1:2])
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p", syntax="proto3", message_type=made)
    text = proto_text(file)
    assert text is not None
    for of, said in ((file, text), (everything(), EVERYTHING), (older(), OLDER)):
        descriptor = base64.b64encode(of.SerializeToString()).decode()
        assert messages_of(said) == messages_of(descriptor)


def test_a_file_that_the_text_would_not_tell_whole_has_none() -> None:
    group, extended, edition, own = (everything() for _ in range(4))
    group.message_type[0].field.append(field("old", 20, Field.TYPE_GROUP))
    extended.extension.append(field("more", 101, Field.TYPE_STRING, extendee=".p.q.Order"))
    edition.syntax = "editions"
    option = descriptor_pb2.FieldOptions.FromString(b"\xc2\x3e\x01x")  # field 1000, which nobody knows
    own.message_type[0].field[0].options.CopyFrom(option)
    assert [proto_text(each) for each in (group, extended, edition, own)] == [None] * 4
