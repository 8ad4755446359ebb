"""Rows of a table that another system made: a Delta table, a folder of Parquet files, or a Kafka topic read to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.errors import DescriptionError, TerminalError, TransientError
from headrace.lake.files.row_groups import INT96_UNIT
from headrace.lake.storage import delta_uri, is_local, local_path, storage_options

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.settings.kafka import KafkaSettings

KAFKA = "kafka:"
NAME_A_TABLE = "Name a Delta table, a folder of Parquet files, or kafka:TOPIC."
TIMEOUT_SECONDS = 20.0


def read_foreign(uri: str, columns: Mapping[str, str], node: Node) -> pa.Table:
    """The rows of a table, in the columns of a node that it has.

    In:     columns  for a column of the node the name that the table has for it, with dots into structs
    Out:    of an empty topic or folder, which names no columns, all columns of the node
    Raises: TerminalError when there is no such table, or it cannot be read; DescriptionError when it lacks a column that
            was named
    """
    from deltalake.exceptions import DeltaError

    try:
        rows = _of_kafka(uri.removeprefix(KAFKA)) if uri.startswith(KAFKA) else _of_files(uri)
    except (pa.ArrowException, DeltaError, OSError) as error:
        said = str(error).partition("\n")[0]
        raise TerminalError(f"The table {uri} cannot be read.", detail=said, hint=NAME_A_TABLE) from error
    if rows is None:
        return pa.table({name: pa.nulls(0) for name in node.columns})
    named = {name: columns.get(name, name) for name in node.columns}
    there = {name: column for name, path in named.items() if (column := _column(rows, path)) is not None}
    if unknown := [name for name in columns if name not in there]:
        raise DescriptionError(
            f"The table {uri} has no column '{columns[unknown[0]]}', or the node has no column '{unknown[0]}'.",
            hint=f"The table's columns are {', '.join(rows.column_names)}; the node's {', '.join(node.columns)}.",
        )
    return pa.table(there) if there else rows.select([])


def _of_files(uri: str) -> pa.Table | None:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    where = uri if "://" in uri or uri.startswith("file:") else f"file:{Path(uri).absolute()}"
    try:
        return DeltaTable(delta_uri(where), storage_options=storage_options(where)).to_pyarrow_table()
    except TableNotFoundError:
        pass
    if not is_local(where) or not local_path(where).exists():
        raise TerminalError(f"There is no table at {uri}.", hint=NAME_A_TABLE)
    files = ds.ParquetFileFormat(coerce_int96_timestamp_unit=INT96_UNIT)
    found = ds.dataset(local_path(where), format=files, partitioning="hive")
    return found.to_table() if found.files else None


def _of_kafka(topic: str) -> pa.Table | None:
    """The newest row of each key, with the fields that any of them has; a record without a value deletes its key."""
    from headrace.settings.kafka import KafkaSettings

    newest: dict[bytes | None, dict[str, Any]] = {}
    for key, value in _records(topic, KafkaSettings()):
        if value is None:
            newest.pop(key, None)
        else:
            newest[key] = {**_fields(key), **_fields(value)}
    names = dict.fromkeys(name for row in newest.values() for name in row)
    return pa.table({name: [row.get(name) for row in newest.values()] for name in names}) if newest else None


def _records(topic: str, settings: KafkaSettings) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The records of a topic from the first to where it ends now, partition by partition."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

    options = {"group.id": "headrace-audit", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({**settings.client_options(), **options, "enable.partition.eof": True})
    try:
        there = consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
        if there.error is not None:
            raise TerminalError(
                f"There is no topic '{topic}' at {settings.bootstrap_servers}.", hint=NAME_A_TABLE
            )
        left = {*there.partitions}
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        while left:
            message = consumer.poll(TIMEOUT_SECONDS)
            if message is None:
                raise TransientError(
                    f"Topic '{topic}': Kafka gave nothing for {TIMEOUT_SECONDS:.0f} s.", hint="Try again."
                )
            error = message.error()
            if error is None:
                yield message.key(), message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise KafkaException(error)
    except KafkaException as error:
        raise TransientError(
            f"Topic '{topic}' cannot be read: {error.args[0].str()}.",
            hint="See HEADRACE_KAFKA_… of headrace config show.",
        ) from error
    finally:
        consumer.close()


def _fields(content: bytes | None) -> dict[str, Any]:
    """The fields of a key or value in JSON; of a plain key there is none."""
    try:
        fields = json.loads(content or b"{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _column(rows: pa.Table, path: str) -> pa.ChunkedArray | None:
    """A column by its path; None: there is none."""
    name, *within = [path] if path in rows.column_names else path.split(".")
    if name not in rows.column_names:
        return None
    column = rows[name]
    for field in within:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(field) < 0:
            return None
        column = pc.struct_field(column, field)
    return column
