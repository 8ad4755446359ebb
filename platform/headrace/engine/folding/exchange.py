"""Which rows go to which bucket of a step.

Law: rows of one scope lie in one bucket (see `contract.Scope`). A bucket is a range of hashes, so the state rows of its
keys lie in it, too. Each bucket gets all shared rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.engine.state_files import ALL_HASHES
from headrace.engine.state_needs import Bounds
from headrace.fold.contract import HASH, KEY, PARTITION, TOPIC, Scope, Step
from headrace.fold.keys import bucket_of, bucket_range, with_keys


def bucket_hashes(bucket: int, buckets: int) -> Bounds:
    """The lowest and the highest hash of a bucket."""
    return ALL_HASHES if buckets == 1 else bucket_range(bucket, buckets)


def exchanged(step: Step, rows: pa.Table, shared: pa.Table | None, buckets: int) -> list[pa.Table]:
    """The rows of each bucket of a step; a bucket may have none.

    In: shared  rows that the step before gave for all buckets
    """
    if step.scope is Scope.ANYWHERE:
        ends = np.arange(buckets + 1) * rows.num_rows // buckets
        parts = [rows.slice(ends[n], ends[n + 1] - ends[n]) for n in range(buckets)]
    else:
        keyed = _keyed(step, rows)
        parts = [keyed] if buckets == 1 else _by_hash(keyed, buckets)
    return [with_shared(part, shared) for part in parts]


def of_bucket(step: Step, rows: pa.Table, bucket: int, buckets: int) -> pa.Table:
    """The rows of one bucket of a step, in their order."""
    if step.scope is Scope.ANYWHERE:
        return exchanged(step, rows, None, buckets)[bucket]
    keyed = _keyed(step, rows)
    return keyed.filter(pa.array(bucket_of(keyed[HASH].to_numpy(), buckets) == bucket))


def is_exchanged(before: Step, step: Step) -> bool:
    """True if a step may take rows from another bucket than that in which the step before has given them."""
    return not (before.keeps_bucket and step.scope is Scope.GROUP and not step.keys)


def _keyed(step: Step, rows: pa.Table) -> pa.Table:
    """The rows with the KEY and HASH of the step's scope; without keys of its own they keep theirs."""
    by = [] if step.scope is Scope.PARTITION else [*step.keys]
    if step.scope is not Scope.GROUP:
        by += [TOPIC, PARTITION]
    return with_keys(rows, by) if by or KEY not in rows.column_names else rows


def _by_hash(rows: pa.Table, buckets: int) -> list[pa.Table]:
    rows = rows.combine_chunks()  # once: each column is taken by each bucket
    number = bucket_of(rows[HASH].to_numpy(), buckets)
    return [rows.take(pa.array(np.flatnonzero(number == bucket))) for bucket in range(buckets)]


def with_shared(rows: pa.Table, shared: pa.Table | None) -> pa.Table:
    """The rows of one bucket, and those that each bucket gets. In: rows  with KEY and HASH."""
    if shared is None:
        return rows
    nothing = {KEY: pa.nulls(shared.num_rows, pa.binary()), HASH: pa.nulls(shared.num_rows, pa.int64())}
    columns = {name: shared[name] for name in shared.column_names} | nothing
    return pa.concat_tables([rows, pa.table(columns).select(rows.schema.names)])
