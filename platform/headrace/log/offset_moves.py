"""What becomes of a log's state when people, or the start of a log, move its offsets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sequence.log_state import LastRow, LogState, PartitionState

if TYPE_CHECKING:
    from collections.abc import Mapping


def anywhere(state: LogState) -> LastRow:
    """Where a row stands that concerns no partition: it changes nothing of the one in which it stands."""
    partition = min(state.partitions, default=0)
    return LastRow(partition, None, state.partitions.get(partition, PartitionState(0)).stream_ms)


def moved(
    state: LogState, offsets: Mapping[int, int], action: str, ends: Mapping[int, int] | None
) -> tuple[dict[LastRow, str], LogState]:
    """Control rows that say that offsets are moved, and the state with them, before its commit.

    In: ends  where Kafka's records end now (see `Sequencer.read_first_to`); None: that is recorded another time
    """
    rows, partitions = dict[LastRow, str](), dict(state.partitions)
    for partition, offset in sorted(offsets.items()):
        before = partitions.get(partition, PartitionState(0))
        entry = {"action": action, "from_offset": before.next_offset, "to_offset": offset}
        entry |= {} if ends is None else {"first_end": ends.get(partition, 0)}
        rows[LastRow(partition, None, before.stream_ms)] = json.dumps(entry, sort_keys=True)
        partitions[partition] = replace(before, next_offset=offset)
    first_ends = state.first_ends if ends is None else dict(ends)
    return rows, replace(state, partitions=partitions, first_ends=first_ends)


def passed_over(state: LogState, offsets: Mapping[int, int]) -> LogState | None:
    """The state with offsets that lie beyond those that it knows; None: none does."""
    known = state.partitions
    beyond = {
        p: replace(known.get(p, PartitionState(0)), next_offset=offset)
        for p, offset in offsets.items()
        if offset > known.get(p, PartitionState(0)).next_offset
    }
    return replace(state, partitions={**known, **beyond}) if beyond else None


def ends_entry(ends: Mapping[int, int]) -> str:
    """The JSON of the control row that records where Kafka's records ended."""
    return json.dumps({"action": "first_ends", "ends": {str(p): end for p, end in sorted(ends.items())}})
