"""The columns of logs and result tables, as the catalogue shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import TableColumn, TableSchema

if TYPE_CHECKING:
    from headrace.description import Column, Node, Topic

# Name, type ("key" and "value": the topic's own columns), meaning; in the log's order.
LOG_COLUMNS = (
    ("ingested_at", "TIMESTAMP", "When the row was logged: one value per commit, strictly increasing."),
    ("kind", "STRING", "record, dead_letter (could not be decoded or dated), tick (time passed) or control."),
    ("topic", "STRING", "Kafka topic."),
    ("partition", "INT", "Kafka partition."),
    ("offset", "BIGINT", "Kafka offset; none for ticks and control rows."),
    ("timestamp", "TIMESTAMP", "Event time."),
    ("stream_time", "TIMESTAMP", "The highest event time of the partition so far; decides what is late."),
    ("key", "key", "The record's key."),
    ("value", "value", "The record's value."),
    ("headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>", "The record's headers."),
    ("tombstone", "BOOLEAN", "Whether the value was null."),
    ("size_bytes", "INT", "Key and value, as they came."),
    ("root_topic", "STRING", "Topic of the first entry of the source chain."),
    ("root_partition", "INT", "Partition of the first entry of the source chain."),
    ("root_offset", "BIGINT", "Offset of the first entry of the source chain."),
    (
        "ordinals",
        "ARRAY<INT>",
        "Which outputs of flat-mapped inputs led here, in chain order; -1: not flat-mapped.",
    ),
    ("path", "STRING", "Topic and partition of each entry of the source chain, then the record's own."),
    ("replay", "BOOLEAN", "Whether the replay guard has seen it before."),
    ("reason", "STRING", "Why it is a dead letter, or what else is special about it."),
    ("raw_key", "BINARY", "A dead letter's key, as it came."),
    ("raw_value", "BINARY", "A dead letter's value, as it came."),
    ("control", "STRING", "What a person did: JSON."),
)
RAW = {  # of logs that keep the bytes of their records
    "raw_key": "The record's key, as it came.",
    "raw_value": "The record's value, as it came.",
}
RAW_TIMESTAMP = ("raw_timestamp", "BIGINT", "Kafka's timestamp, in ms.")


def log_table_schema(topic: Topic) -> TableSchema:
    """Describe the columns of a topic's log."""
    structs = {"key": _struct(topic.key_columns), "value": _struct(topic.value_columns)}
    present = [entry for entry in LOG_COLUMNS if entry[0] != "key" or topic.key_columns]
    if topic.has_bytes_in_log:
        present = [(name, kind, RAW.get(name, says)) for name, kind, says in (*present, RAW_TIMESTAMP)]
    return TableSchema([TableColumn(name, structs.get(kind, kind), says) for name, kind, says in present])


def result_table_schema(node: Node) -> TableSchema:
    """Describe the columns of a node's results."""
    return TableSchema([TableColumn(c.name, c.type, c.meaning) for c in node.result_columns])


def _struct(columns: tuple[Column, ...]) -> str:
    return f"STRUCT<{', '.join(f'{column.name}: {column.type}' for column in columns)}>"
