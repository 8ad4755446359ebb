"""A bound on what waits in each partition: its size after each log commit, and whether a stream has to stop.

Law: sizes after a commit follow from the log through that commit. They are sums over all buckets, so a bucket tells by how
much they change, and the caller judges them once for all buckets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import TerminalError
from headrace.fold.contract import INGESTED, PARTITION, TOPIC

if TYPE_CHECKING:
    from headrace.description import Bound

RECORDS, BYTES = "records", "bytes"
SIZE_CHANGES = pa.schema(
    [
        (INGESTED, pa.int64()),  # commit time of the log commit after which the size is another
        (TOPIC, pa.string()),
        (PARTITION, pa.int32()),
        (RECORDS, pa.int64()),  # by how much it is more, or less
        (BYTES, pa.int64()),
    ]
)
Sizes = Mapping[tuple[str, int], tuple[int, int]]  # for each topic and partition: records and bytes


class FullError(TerminalError):
    """More would wait than a bound allows."""


def limits_of_node(text: str, node: str) -> Mapping[str, int | None] | None:
    """The limits that a control row sets for a node; None: it is another's. In: the row's JSON."""
    entry = json.loads(text)
    return entry["limits"] if entry.get("node") == node else None


def judge(
    before: Sizes, changes: Iterable[pa.Table], bound_at: Callable[[int], Bound], name: str, what: str
) -> tuple[Sizes, FullError | None]:
    """The sizes after a micro-batch, and why its stream has to stop before it commits anything.

    In:  changes   of all buckets, as `SIZE_CHANGES`
         bound_at  the bound that is in force at a commit time
         name      of the node; what: the word for what waits
    Out: the refusal is that of the first log commit after which a partition is too large; None: there is none
    """
    sizes, refusal = dict(before), None
    everything = pa.concat_tables([SIZE_CHANGES.empty_table(), *changes])
    names = [INGESTED, TOPIC, PARTITION]
    summed = everything.group_by(names, use_threads=False).aggregate([(RECORDS, "sum"), (BYTES, "sum")])
    by_commit: dict[int, list[tuple[str, int, int, int]]] = {}
    for row in summed.to_pylist():  # one row per commit and partition
        change = (row[TOPIC], row[PARTITION], row[f"{RECORDS}_sum"], row[f"{BYTES}_sum"])
        by_commit.setdefault(row[INGESTED], []).append(change)
    for at_ms, found in sorted(by_commit.items()):
        for topic, partition, records, size in sorted(found):
            known = sizes.get((topic, partition), (0, 0))
            # What was open before the bound was described was not counted, and is not taken away.
            sizes[topic, partition] = (max(0, known[0] + records), max(0, known[1] + size))
        refusal = refusal or _refusal(sizes, bound_at(at_ms), name, what)
    return {place: size for place, size in sizes.items() if size != (0, 0)}, refusal


def _refusal(sizes: Sizes, bound: Bound, name: str, what: str) -> FullError | None:
    for (_, partition), found in sorted(sizes.items()):
        for unit, size, most in zip(
            (RECORDS, BYTES), found, (bound.max_records, bound.max_bytes), strict=True
        ):
            if most is not None and size > most:
                return FullError(
                    f"Node '{name}': {size:,} {unit} of {what} would wait in partition {partition}; "
                    f"max_{unit} is {most:,}.",
                    detail="Nothing of this micro-batch was committed: with a higher bound the stream goes on from here.",
                    hint=f"Raise max_{unit} (the job set_limits, or headrace set-limits: the stream then goes on by itself) "
                    "or leave the bounds and when_full out: the buffer is a table, memory does not bound it.",
                )
    return None
