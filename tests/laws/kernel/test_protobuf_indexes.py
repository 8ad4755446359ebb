"""Indexes of a message that is nested after a map field: clients differ in whether the map's entries count as a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, MessageOptions

import headrace as hr
from headrace.description.formats.protobuf_types import descriptors_of
from tests.description.refusal import refused
from tests.laws.kernel.protobuf_values import Field, compiled, field, message
from tests.laws.kernel.test_sequence_protobuf import found

pytestmark = pytest.mark.fast


def entries_of(name: str) -> DescriptorProto:
    """The message that protoc makes for the entries of a map field."""
    key, value = field("key", 1, Field.TYPE_STRING), field("value", 2, Field.TYPE_INT32)
    return message(name, key, value, options=MessageOptions(map_entry=True))


def order(*after: str, columns: Sequence[Any] = ()) -> bytes:
    """A file with a message that holds a map field, and messages of some columns that stand after it."""
    tags = Field(name="tags", number=1, type_name=".p.Order.TagsEntry", label=Field.LABEL_REPEATED)
    nested = [message(name, *(columns or [field("n", 1, Field.TYPE_INT32)])) for name in after]
    made = compiled(message("Order", tags, nested_type=[entries_of("TagsEntry"), *nested]))
    return descriptors_of(made["p.Order"].DESCRIPTOR)


def read(message: str, value: bytes, *after: str, **more: Any) -> Any:
    of = hr.Protobuf(f"p.Order.{message}", schema=order(*after), registered=True, **more)
    return found(hr.Topic("t", format=of), value)


# As confluent-kafka 2.16.1 writes a Line with n=5 (`ProtobufSerializer`): the map's entries count.
FROM_A_CLASS = b"\0\0\0\0\x01\x04\x00\x02\x08\x05"
# As Confluent's Java client writes it if it reads the schema from the text of a .proto file: they do not.
FROM_A_TEXT = b"\0\0\0\0\x01\x04\x00\x00\x08\x05"


@pytest.mark.parametrize("value", [FROM_A_CLASS, FROM_A_TEXT])
def test_a_message_after_a_map_field_is_read_in_both_ways_of_counting(value: bytes) -> None:
    assert read("Line", value, "Line") == {"n": 5}


def test_indexes_that_name_the_message_in_neither_way_are_a_dead_letter() -> None:
    why = "it is message [0, 2] of its schema, and p.Order.Line is [0, 0] or [0, 1]"
    assert read("Line", b"\0\0\0\0\x01\x04\x00\x04\x08\x05", "Line") == f"malformed value: {why}"


def test_indexes_that_mean_two_messages_are_refused_until_the_topic_tells_how_its_producers_count() -> None:
    for name, other in (("Line", "Note"), ("Note", "Line")):
        of = hr.Protobuf(f"p.Order.{name}", schema=order("Line", "Note"), registered=True)
        with refused(
            f"Topic 't': value: the indexes of p.Order.{name} may also mean p.Order.{other}",
            "map_entries=True",
        ):
            hr.Topic("t", format=of)
    assert hr.Topic("t", format=hr.Protobuf("p.Order.Line", schema=order("Line", "Note"))).columns == ("n",)
    assert read("Line", FROM_A_CLASS, "Line", "Note", map_entries=True) == {"n": 5}
    assert read("Note", FROM_A_CLASS, "Line", "Note", map_entries=False) == {"n": 5}
    assert read("Note", FROM_A_CLASS, "Line", "Note", map_entries=True) == (
        "malformed value: it is message [0, 1] of its schema, and p.Order.Note is [0, 2]"
    )


def test_a_message_before_the_map_field_has_one_way_of_counting() -> None:
    line = message("Line", field("n", 1, Field.TYPE_INT32))
    tags = Field(name="tags", number=1, type_name=".p.Order.TagsEntry", label=Field.LABEL_REPEATED)
    made = compiled(message("Order", tags, nested_type=[line, entries_of("TagsEntry")]))
    schema = descriptors_of(made["p.Order"].DESCRIPTOR)
    topic = hr.Topic("t", format=hr.Protobuf("p.Order.Line", schema=schema, registered=True))
    assert found(topic, FROM_A_TEXT) == {"n": 5}
    assert found(topic, FROM_A_CLASS) == (
        "malformed value: it is message [0, 1] of its schema, and p.Order.Line is [0, 0]"
    )
