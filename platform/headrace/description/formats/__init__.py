"""Formats of keys and values in Kafka that bring a schema of their own: columns come from it.

Law: a format is a description. It says how bytes are read and what columns there are; `headrace.sequence` reads them.
A topic's columns decide about results, the format does not, so it is no part of a node's fingerprint.
"""

from headrace.description.formats.avro import Avro
from headrace.description.formats.format import Format
from headrace.description.formats.json_schema import JsonSchema
from headrace.description.formats.protobuf import Protobuf
from headrace.description.formats.registry import RegistryAwayError

__all__ = ["Avro", "Format", "JsonSchema", "Protobuf", "RegistryAwayError"]
