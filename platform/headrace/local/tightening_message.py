"""The message of the demo's topic `tightenings`, as protoc would make it of the text below.

syntax = "proto3";
package factory;
message SourceTopic { string topic = 1; int32 partition = 2; int64 offset = 3; }
message Envelope { repeated SourceTopic source_topic_chain = 1; }
message Tightening { Envelope envelope = 1; string customer = 2; string screw = 3; int64 count = 4; }
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool

REGISTRY = "DEMO_REGISTRY"  # the variable with the address of the registry that has this schema
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _Field.TYPE_STRING, "int32": _Field.TYPE_INT32, "int64": _Field.TYPE_INT64}
_MESSAGES = {
    "SourceTopic": {"topic": "string", "partition": "int32", "offset": "int64"},
    "Envelope": {"source_topic_chain": "SourceTopic[]"},
    "Tightening": {"envelope": "Envelope", "customer": "string", "screw": "string", "count": "int64"},
}


def _field(name: str, number: int, of: str) -> Any:
    label = _Field.LABEL_REPEATED if of.endswith("[]") else _Field.LABEL_OPTIONAL
    if of in _SCALARS:
        return _Field(name=name, number=number, type=_SCALARS[of], label=label)
    return _Field(name=name, number=number, type_name=f".factory.{of.removesuffix('[]')}", label=label)


def _compiled() -> Any:
    messages = [
        descriptor_pb2.DescriptorProto(
            name=name, field=[_field(each, number, of) for number, (each, of) in enumerate(fields.items(), 1)]
        )
        for name, fields in _MESSAGES.items()
    ]
    pool = DescriptorPool()
    pool.Add(
        descriptor_pb2.FileDescriptorProto(
            name="factory.proto", package="factory", syntax="proto3", message_type=messages
        )
    )
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("factory.Tightening"))


Tightening = _compiled()
