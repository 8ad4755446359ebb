"""The latest version of each key: what is looked at grows with the keys that have several, and not with the table."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from headrace.fold.contract import EVENT, HASH, INGESTED, KEY, OFFSET, PARTITION, TOPIC
from headrace.fold.lookups import latest

pytestmark = pytest.mark.fast


def versions(keys: list[int], random: Random) -> pa.Table:
    """Versions of keys in any order of their places. Keys that are the same modulo 50 have the same hash."""
    rows = len(keys)
    return pa.table(
        {
            KEY: pa.array([str(key).encode() for key in keys], pa.binary()),
            HASH: pa.array([key % 50 for key in keys], pa.int64()),
            INGESTED: pa.array([random.randrange(4) for _ in keys], pa.int64()),
            TOPIC: pa.array(["t"] * rows, pa.string()),
            PARTITION: pa.array([0] * rows, pa.int32()),
            OFFSET: pa.array(random.sample(range(1_000), rows), pa.int64()),
            EVENT: pa.array([random.randrange(5) for _ in keys], pa.int64()),
        }
    )


@pytest.mark.parametrize("by_timestamp", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_rows_that_share_their_hash_with_none_are_the_latest(seed: int, by_timestamp: bool) -> None:
    random = Random(seed)
    rows = versions([random.randrange(100) for _ in range(random.choice([0, 1, 5, 40]))], random)
    counting = latest.newest_of(rows, by_timestamp=by_timestamp)
    found = latest.latest_rows(rows, by_timestamp=by_timestamp)
    assert found.equals(rows.take(pa.array(np.sort(counting))).combine_chunks())


def test_the_places_of_rows_that_share_their_hash_alone_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = versions([*range(40), 7, 7, 57], Random(1))
    looked_at: list[int] = []
    newest_of = latest.newest_of

    def counted(some: pa.Table, *, by_timestamp: bool) -> np.ndarray:
        looked_at.append(some.num_rows)
        return newest_of(some, by_timestamp=by_timestamp)

    monkeypatch.setattr(latest, "newest_of", counted)
    assert latest.latest_rows(rows, by_timestamp=False).num_rows == 41
    assert looked_at == [4]
