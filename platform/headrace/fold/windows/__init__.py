"""Tumbling and hopping windows with final results.

Law (L4 to L7, L11): a record counts in window w unless `w.end + grace <= stream time` of its own row; w closes when the
lowest stream time of the topics' non-empty partitions reaches `w.end + grace`. So the closed windows, and what is in
them, are a function of the log alone.

- Closed implies late: a partition's stream time never lies below the lowest at an earlier commit, so nothing reopens.
- Hopping windows share panes, cut wherever a window starts or ends; a window is the merge of its panes.
- A record enters a run of windows, from the first that is open to it to the last that contains it. So group, pane and
  first open window are all that a partial must keep.

By the wall clock (L35) the time of a record is its commit time, for windows and for lateness, and windows close by how far
the logs are read. So no record is late, and a window is final at its end, which is its `__sequence`.

Source: KIP-328 (final results), Kafka Streams' TimeWindows and KTableSuppressProcessor; paired panes from Krishnamurthy et
al., "On-the-fly sharing for streamed aggregation" (SIGMOD 2006).
"""

from headrace.fold.windows.bound_open import Bounded
from headrace.fold.windows.fold_windows import Windows

__all__ = ["Bounded", "Windows"]
