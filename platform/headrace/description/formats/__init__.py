"""Formats of keys and values in Kafka; most bring a schema of their own, and columns come from it.

Law: a format is a description. It says how bytes are read and what columns there are; `headrace.sequence` reads them.
A topic's columns decide about results, the format does not, so it is no part of a node's fingerprint.
"""

from headrace.description.formats.avro import Avro
from headrace.description.formats.csv_values import Csv
from headrace.description.formats.debezium import Debezium
from headrace.description.formats.format import Format
from headrace.description.formats.json_schema import JsonSchema
from headrace.description.formats.json_values import Json
from headrace.description.formats.plain_values import Bytes, Number, PlainValue, Text
from headrace.description.formats.protobuf import Protobuf
from headrace.description.formats.registry import RegistryAwayError

__all__ = [
    "Avro", "Bytes", "Csv", "Debezium", "Format", "Json", "JsonSchema", "Number", "PlainValue", "Protobuf",
    "RegistryAwayError", "Text",
]  # fmt: skip
