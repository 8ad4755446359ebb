"""Columns, properties and protocol of a version of a Delta table (public protocol of Delta Lake)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from deltalake import DeltaTable

NTZ, FEED = "timestamp_ntz", "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class TableMetadata:
    """Holds the content of the actions `metaData` and `protocol`.

    id               each table that is made has one of its own
    columns          in Delta's JSON: name, type, nullable and remarks (`metadata`) of each
    configuration    the table's properties
    partitioned_by   columns
    writer_version   of the protocol; the features are named from 7 on
    """

    id: str = ""
    columns: tuple[Mapping[str, Any], ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    writer_version: int = 0
    writer_features: frozenset[str] = frozenset()
    reader_features: frozenset[str] = frozenset()

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        from deltalake import Schema

        return pa.schema(Schema.from_json(json.dumps(self.json_schema)).to_arrow())

    @property
    def json_schema(self) -> dict[str, Any]:
        """The columns as one struct of Delta's JSON."""
        return {"type": "struct", "fields": [*self.columns]}

    @cached_property
    def times(self) -> frozenset[str]:
        """The columns that are timestamps."""
        types = ("timestamp", NTZ)
        return frozenset(each["name"] for each in self.columns if each["type"] in types)

    def remarks(self, column: str) -> dict[str, Any]:
        """The remarks on a column, by name; none if there is no such column."""
        return next((dict(each["metadata"]) for each in self.columns if each["name"] == column), {})

    def after(self, actions: Iterable[Mapping[str, Any]]) -> TableMetadata:
        """The same after the actions of a commit."""
        now = self
        for action in actions:
            if (made := action.get("metaData")) is not None:
                now = replace(
                    now,
                    id=made["id"],
                    columns=tuple(json.loads(made["schemaString"])["fields"]),
                    configuration=made.get("configuration") or {},
                    partitioned_by=tuple(made.get("partitionColumns") or ()),
                )
            if (protocol := action.get("protocol")) is not None:
                now = replace(
                    now,
                    writer_version=protocol["minWriterVersion"],
                    writer_features=frozenset(protocol.get("writerFeatures") or ()),
                    reader_features=frozenset(protocol.get("readerFeatures") or ()),
                )
        return now


def metadata_of(table: DeltaTable) -> TableMetadata:
    """The same of a table that delta-rs has opened."""
    metadata, protocol = table.metadata(), table.protocol()
    return TableMetadata(
        str(metadata.id),
        tuple(json.loads(table.schema().to_json())["fields"]),
        dict(metadata.configuration),
        tuple(metadata.partition_columns),
        protocol.min_writer_version,
        frozenset(protocol.writer_features or ()),
        frozenset(protocol.reader_features or ()),
    )


def creation_actions(
    table_id: str, columns: Sequence[Mapping[str, Any]], configuration: Mapping[str, str], now_ms: int
) -> list[dict[str, Any]]:
    """The first commit of a table: the lowest protocol that has what it needs, columns and properties.

    In: columns  in Delta's JSON
    """
    has_feed = configuration.get(FEED) == "true"
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 4 if has_feed else 2}
    if f'"{NTZ}"' in json.dumps([column["type"] for column in columns]):
        appended = ["appendOnly"] * (configuration.get("delta.appendOnly") == "true")
        writer = [*appended, *["changeDataFeed"] * has_feed, "timestampNtz"]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["timestampNtz"],
            "writerFeatures": writer,
        }
    metadata = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [*columns]}, ensure_ascii=False),
        "partitionColumns": [],
        "createdTime": now_ms,
        "configuration": dict(configuration),
    }
    info = {"timestamp": now_ms, "operation": "CREATE TABLE", "engineInfo": "headrace"}
    return [{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}]
