"""Whether the rows of a log let it be made anew from the bytes of its records, or from Kafka. Spark is not needed.

Law: a log is made anew only if each of its records may be read again. The plan and `headrace apply` ask the same question:
an apply refuses no log that the plan has promised, unless its rows have changed since.

A look reads four columns of all files. They are small beside the others: most of their values are null, or repeat.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.at_once import each
from headrace.engine.state_parquet import open_parquet
from headrace.lake.files.sorted_rows import fitted
from headrace.sequence.log_columns import DEAD_LETTER, ERASED, RECORD

if TYPE_CHECKING:
    from headrace.lake import LakeTable

LOOKED_AT = pa.schema(
    [
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("control", pa.string()),
        ("raw_timestamp", pa.int64()),
    ]
)
SEEDED = '{"action": "seed"'  # of the control row with which a seed begins
ODD = {  # of a log that is not made anew
    "erased": "{:,} of its records were erased",
    "bare": "{:,} were kept without bytes",
    "seeded": "it begins with a seed, which Kafka does not have",
}


def why_not_reread(log: LakeTable, *, from_kafka: bool) -> str:
    """The rows that speak against it, in words; empty: none do.

    In: from_kafka  whether the records are read from Kafka, so that the log need not have their bytes
    """
    files = log.snapshot().files.items()
    rows = Counter[str]()
    for counts in each(lambda file: _look(f"{log.uri}/{file[0]}", file[1].size), files, log.uri):
        rows += counts
    odd = {
        "erased": rows["erased"],
        "bare": 0 if from_kafka else rows["bare"],
        "seeded": rows["seeded"] if from_kafka else 0,
    }
    return ", and ".join(ODD[name].format(number) for name, number in odd.items() if number > 0)


def _look(uri: str, size: int) -> Counter[str]:
    """How many rows of a file are of each kind that matters."""
    counts = Counter[str]()
    with open_parquet(uri, size, None) as file:
        for number in range(file.num_row_groups):
            rows = fitted(file.read_row_group(number, columns=LOOKED_AT.names), LOOKED_AT)
            counts += Counter({name: pc.sum(mark).as_py() or 0 for name, mark in _marks(rows).items()})
    return counts


def _marks(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    said, kinds = rows["control"], pa.array([RECORD, DEAD_LETTER])
    of_record = pc.is_in(rows["kind"], value_set=kinds)
    return {
        "erased": pc.and_(of_record, pc.equal(rows["reason"], ERASED)),
        "bare": pc.and_(of_record, pc.is_null(rows["raw_timestamp"])),
        "seeded": pc.starts_with(said, SEEDED),
    }
