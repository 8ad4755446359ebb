"""Control rows by which partitions of a log begin, or go on, at other offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from headrace.sequence.log_state import LastRow, LogState, PartitionState
from headrace.sequence.seed_pieces import SeedState


def moved(
    state: LogState, offsets: Mapping[int, int], action: str, at_ms: int, seed: SeedState | None = None
) -> tuple[dict[LastRow, str | None], LogState]:
    """The rows that say so, each with its JSON, and the log after their commit.

    In: offsets  the next offset of each partition
        action   why
        seed     with whose rows the log begins
    """
    rows, partitions = dict[LastRow, str | None](), dict(state.partitions)
    more = {} if seed is None else {"seed": seed.to_json()}
    for partition, offset in sorted(offsets.items()):
        before = partitions.get(partition, PartitionState(0))
        entry = {"action": action, "from_offset": before.next_offset, "to_offset": offset, **more}
        rows[LastRow(partition, None, before.stream_ms)] = json.dumps(entry, sort_keys=True)
        partitions[partition] = replace(before, next_offset=offset)
    after = replace(state, partitions=partitions, seed=seed or state.seed)
    return rows, after.after(at_ms, rows)
