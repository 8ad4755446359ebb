"""How a log goes on when partitions begin, or continue, at other offsets; and rows that concern no partition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from headrace.sequence.log_columns import COMPLETE, IDLE
from headrace.sequence.log_state import LastRow, LogState, PartitionState
from headrace.sequence.seed_pieces import SeedState


def anywhere(state: LogState) -> LastRow:
    """Where a row stands that concerns no partition: it changes nothing of the one in which it stands."""
    partition = min(state.partitions, default=0)
    return LastRow(partition, None, state.partitions.get(partition, PartitionState(0)).stream_ms)


def moved(
    state: LogState, offsets: Mapping[int, int], action: str, at_ms: int, seed: SeedState | None = None
) -> tuple[dict[LastRow, str | None], LogState]:
    """Control rows that say that offsets are moved, each with its JSON, and the log after their commit.

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


def passed_over(state: LogState, offsets: Mapping[int, int]) -> LogState:
    """The log once it has moved to those of some next offsets that are beyond its own."""
    known = state.partitions
    beyond = {
        p: replace(known.get(p, PartitionState(0)), next_offset=offset)
        for p, offset in offsets.items()
        if offset > known.get(p, PartitionState(0)).next_offset
    }
    return replace(state, partitions={**known, **beyond}) if beyond else state


def completion(state: LogState) -> dict[LastRow, str | None]:
    """The control row, with its JSON, that says that a log is complete with its commit. In: state  after the commit."""
    return {anywhere(state): json.dumps({"action": COMPLETE})}


def idleness(state: LogState) -> dict[LastRow, str | None]:
    """The control row, with its JSON, that says that a log is idle after its commit. In: state  after the commit."""
    return {anywhere(state): json.dumps({"action": IDLE})}


def ends_entry(ends: Mapping[int, int]) -> str:
    """The JSON of the control row that records where Kafka's records ended."""
    return json.dumps({"action": "first_ends", "ends": {str(p): end for p, end in sorted(ends.items())}})
