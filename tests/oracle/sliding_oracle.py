"""Sliding windows once more, in plain Python, by their definition: the windows that a log has to lead to.

Nothing here is shared with the engine. Times are in ms; a window of end e is [e - difference, e].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.oracle.log_oracle import Arrival, Log
from tests.oracle.windows_oracle import Windows, aggregates, unusable


def sliding(
    log: Log, difference: int, grace: int, keep: Callable[[Any], bool] = lambda value: True
) -> Windows:
    """A window is open to a record when end + grace lies beyond the record's own stream time.

    A record makes the window that ends with it (never before `difference`), and, if a window that could hold it is open to it,
    the one that begins just after it, which exists when it holds a record. Final is what every partition's stream time closed.
    """
    result, lowest = Windows(), min(log.stream.values(), default=-1)
    counted: dict[str, list[tuple[Arrival, int, int]]] = {}
    for arrival, offset, stream in log.rows:
        fate = unusable(arrival, keep)
        if fate:
            result.fates[0, arrival.partition, fate] += 1
        else:
            counted.setdefault(str(arrival.key), []).append((arrival, offset, stream or 0))
    for key, records in counted.items():
        ends = set()
        for record, _, stream in records:
            own, last = max(record.ts, difference), record.ts + difference
            ends |= {own} if own + grace > stream else set()
            ends |= {last + 1} if last + grace > stream else set()
        holds = {
            end: [r for r, _, s in records if 0 <= end - r.ts <= difference and end + grace > s]
            for end in ends
        }
        for end, entered in holds.items():
            if entered:
                closed = end + grace <= lowest
                (result.final if closed else result.open)[key, end - difference] = aggregates(entered)
        for record, offset, stream in records:
            own, last = max(record.ts, difference), record.ts + difference
            within = [end for end, entered in holds.items() if entered and 0 <= end - record.ts <= difference]
            entered_any = any(end + grace > stream for end in within)
            missed = {end for end in {*within, own} if end + grace <= stream}
            result.late.update((0, record.partition, offset, end - difference) for end in missed)
            may_enter = last + grace > max(stream, lowest)
            fate = "open" if may_enter else "used" if entered_any else "late"
            result.fates[0, record.partition, fate] += 1
    return result
