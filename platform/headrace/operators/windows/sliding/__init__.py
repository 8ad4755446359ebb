"""Sliding windows: where records of a group are at most a time difference d apart; both bounds are inside.

Law (L18): which windows there are, and what is in them, is a function of the log alone. Let t be a record's event time and s
the stream time of its row. A window of end e is open to the record when `e + grace > s`.

- A record makes the window [t - d, t], or [0, d] if t < d, when that window is open to it; and, if any window that holds t
  is open to it, the window [t + 1, t + 1 + d], which exists when it holds a record.
- A window holds the records between its bounds to which it is open. It closes when the lowest stream time reaches
  `e + grace`; then it is open to no later record, so none enters it and none makes it: nothing reopens.
- A record is late for the windows between whose bounds it lies and that are not open to it, its own [t - d, t] too.

Records are aggregated by group and event time (`points`); a window merges those within it, so a record is merged once
for each of its windows. The state keeps points while a window that holds or follows them may be open.

Source: KIP-450, Kafka Streams' KStreamSlidingWindowAggregate.java. Kafka Streams takes a record for a window of end
`s - grace` too, which that very record emits, and lets a record that enters no window make the one after it.
"""

from headrace.operators.windows.sliding.fold_sliding import SlidingWindows
from headrace.operators.windows.sliding.sliding_changes import SlidingChanges

__all__ = ["SlidingChanges", "SlidingWindows"]
