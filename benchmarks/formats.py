"""Catch-up from Avro and from Protobuf beside JSON: the same log in three topics, to the same windows.

`make bench ARGS="--formats"` or `python -m benchmarks.formats`. All formats share one JVM, one broker and a schema registry.
They run in rounds, one after the other; the first round warms up and is not counted, and each ratio is to JSON of the same
round. Avro and Protobuf come in the wire format of registries. Each run is checked against plain Python.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from fastavro import parse_schema, schemaless_writer
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks.catch_up import Measured, backfill_seconds, catch_up, windows_are
from benchmarks.readings import PARTITIONS, as_json, counts, expected, produce
from headrace.lake.paths import Lake
from headrace.local.schema_registry import SchemaRegistry
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf

AVRO = {
    "type": "record",
    "name": "reading",
    "fields": [{"name": "sensor_id", "type": "string"}, {"name": "value", "type": "long"}],
}
Encode = Callable[[str, int], bytes]


def avro(registry: str) -> tuple[hr.Avro, Encode]:
    """The format of a topic, and a producer's encoder; the schema is registered."""
    client = SchemaRegistryClient({"url": registry})
    number = client.register_schema("readings-avro-value", Schema(json.dumps(AVRO), "AVRO"))
    schema, prefix = parse_schema(AVRO), b"\0" + number.to_bytes(4, "big")

    def encode(sensor: str, value: int) -> bytes:
        out = io.BytesIO()
        schemaless_writer(out, schema, {"sensor_id": sensor, "value": value})
        return prefix + out.getvalue()

    return hr.Avro(schema=AVRO, registry=registry), encode


def protobuf() -> tuple[hr.Protobuf, Encode]:
    """The format of a topic, and a producer's encoder."""
    of = descriptor_pb2.FieldDescriptorProto
    fields = [
        of(name="sensor_id", number=1, type=of.TYPE_STRING, label=of.LABEL_OPTIONAL),
        of(name="value", number=2, type=of.TYPE_INT64, label=of.LABEL_OPTIONAL),
    ]
    message = descriptor_pb2.DescriptorProto(name="Reading", field=fields)
    pool = DescriptorPool()
    pool.Add(
        descriptor_pb2.FileDescriptorProto(
            name="r.proto", package="b", syntax="proto3", message_type=[message]
        )
    )
    reading: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("b.Reading"))

    def encode(sensor: str, value: int) -> bytes:
        content: bytes = reading(sensor_id=sensor, value=value).SerializeToString()
        return b"\0\0\0\0\1\0" + content

    return hr.Protobuf(reading, registered=True), encode


def main(
    records: Annotated[int, typer.Option(help="Records in each topic.")] = 1_000_000,
    runs: Annotated[int, typer.Option(help="Rounds that count, after one that does not.")] = 2,
    master: Annotated[str, typer.Option(help="Spark's master URL.")] = f"local[{os.cpu_count()}]",
) -> None:
    """Measure how fast full topics of three formats become final windows."""
    console, right, found = Console(width=120), expected(records), dict[str, list[tuple[Measured, float]]]()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as temporary:
        folder = Path(temporary)
        with Broker(folder / "kafka") as broker, SchemaRegistry(folder / "registry") as registry:
            formats: dict[str, tuple[Any, Encode]] = {
                "json": ("json", as_json),
                "avro": avro(registry.url),
                "protobuf": protobuf(),
            }
            nodes = {name: counts(topic=f"readings-{name}", of=of) for name, (of, _) in formats.items()}
            create_topics(broker.bootstrap_servers, {f"readings-{name}": PARTITIONS for name in formats})
            for name, (_, encode) in formats.items():
                console.print(f"producing {records:,} records of {name}")
                delivered = produce(
                    broker.bootstrap_servers, records, topic=f"readings-{name}", encode=encode
                )
            spark = build_session(spark_conf(spark_jars(), master=master))
            kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            for number in range(runs + 1):
                for name, node in nodes.items():
                    lake = Lake(f"file:{folder}/lake-{name}-{number}")
                    measured = catch_up(spark, lake, kafka, node, delivered, windows_are(right, node))
                    backfill = delivered / backfill_seconds(spark, lake, node)
                    console.print(f"round {number}: {name}, {measured.records_per_second:,.0f} records/s")
                    if number:
                        found.setdefault(name, []).append((measured, backfill))
    console.print(_table(found, f"{records:,} records to final windows; medians of warm rounds"))


def _table(found: dict[str, list[tuple[Measured, float]]], title: str) -> Table:
    table = Table(title=title)
    for column in ("format", "records/s", "of JSON", "CPU s / million", "backfill records/s"):
        table.add_column(column, justify="left" if column == "format" else "right")
    for name, runs in found.items():
        beside = [
            run.records_per_second / base.records_per_second
            for (run, _), (base, _) in zip(runs, found["json"], strict=True)
        ]
        table.add_row(
            name,
            f"{statistics.median(run.records_per_second for run, _ in runs):,.0f}",
            f"{statistics.median(beside):.2f}",
            f"{statistics.median(run.cpu_per_million for run, _ in runs):,.1f}",
            f"{statistics.median(backfill for _, backfill in runs):,.0f}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
