"""The records that the Kafka sink sends for rows, made of whole Arrow tables.

Law: few rows become records in this process, and many in tasks of Spark, by the same function. So a record's bytes do not
depend on who makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.casts import floored
from headrace.fold.aggregates.kind import whole
from headrace.fold.values.json_text import json_objects
from headrace.spark.brokers.partitioner import positive_murmur2
from headrace.spark.one_task import made_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.sinks.encoding import Encoder

CHAIN = "__chain"  # of rows of stateless nodes: the source chain, which goes on
RECORDS = pa.schema(
    [
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("chain", pa.string()),
        ("timestamp_ms", pa.int64()),
        ("sequence", pa.int64()),
        ("ordinal", pa.int32()),
        ("problem", pa.string()),
    ]
)
ORDER = [("partition", "ascending"), ("sequence", "ascending"), ("ordinal", "ascending")]
MILLISECOND_US = 1_000


@dataclass(frozen=True)
class Part:
    """The bytes of a key or a value. In: columns  none: there are no bytes; encoder  None: JSON without a schema."""

    columns: tuple[str, ...]
    encoder: Encoder | None
    is_key: bool

    def of(self, rows: pa.Table, there: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The bytes, and why a row has none; both are null where a row has nothing to encode. In: there  where it has."""
        columns = {name: whole(rows[name]) for name in self.columns}
        nothing = pa.nulls(rows.num_rows, pa.string())
        if not columns:
            return pa.nulls(rows.num_rows, pa.binary()), nothing
        if self.encoder is None and self.is_key and [of.type for of in columns.values()] == [pa.string()]:
            return next(iter(columns.values())).cast(pa.binary()), nothing
        if self.encoder is not None and self.encoder.rows is not None:
            encoded = self.encoder.encoded(_structs(columns, there))
        else:
            texts = pc.if_else(there, json_objects(columns, exact=True), None).cast(pa.binary())
            if self.encoder is None:
                return texts, nothing
            encoded = self.encoder.checked(_structs(columns, there), texts)
        content, problem = encoded.flatten()
        return content, problem


@dataclass(frozen=True)
class RecordMaker:
    """Makes the records of a node's rows. In: partitions  how many the topic has."""

    node: str
    key: Part
    value: Part
    partitions: int

    def of_frame(self, rows: DataFrame) -> DataFrame:
        """RECORDS; all of a partition lie in one task, in order."""
        made = made_of(rows, self.of_rows, rows.columns, schema=RECORDS, whole=False)
        tasks = min(self.partitions, rows.sparkSession.sparkContext.defaultParallelism)
        return made.repartitionById(tasks, made["partition"] % tasks).sortWithinPartitions(
            *(name for name, _ in ORDER)
        )

    def of_table(self, rows: pa.Table) -> pa.Table:
        """The same of few rows."""
        return self.of_rows(rows).sort_by(ORDER)

    def of_rows(self, rows: pa.Table) -> pa.Table:
        """The record of each row."""
        key, key_problem = self.key.of(rows, pa.repeat(pa.scalar(True), rows.num_rows))
        value, problem = self.value.of(rows, pc.invert(whole(rows["__deleted"])))
        spread = key if self.key.columns else whole(rows["__place"])
        hashed = np.asarray(positive_murmur2(spread).fill_null(0))
        partition = pa.array(hashed % self.partitions, pa.int32())
        sequence, ordinal = whole(rows["__sequence"]), whole(rows["__ordinal"])
        own = pc.binary_join_element_wise(
            *(part.cast(pa.string()) for part in (partition, sequence, ordinal)), ","
        )
        columns = [
            partition,
            key,
            value,
            whole(rows[CHAIN])
            if CHAIN in rows.column_names
            else pc.binary_join_element_wise(f'[["{self.node}",', own, "]]", ""),
            floored(whole(rows["__timestamp"]), MILLISECOND_US),
            sequence,
            ordinal,
            pc.coalesce(key_problem, problem),
        ]
        return pa.table(columns, schema=RECORDS)


def _structs(columns: dict[str, pa.Array], there: pa.Array) -> pa.StructArray:
    fields = [pa.field(name, values.type) for name, values in columns.items()]
    return pa.StructArray.from_arrays([*columns.values()], fields=fields, mask=pc.invert(there))


def columns_in(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Some columns of rows, in this order."""
    return pa.schema([schema.field(name) for name in names])
