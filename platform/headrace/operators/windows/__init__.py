"""Windowed aggregates with final results.

Law: a record counts in window w unless `w.end + grace <= stream_time` by its own row; w closes when the lowest
stream time of the topic's non-empty partitions reaches `w.end + grace`. So the closed windows, and what is in
them, are a function of the log alone.

- closed implies late: a partition's stream time never lies below the lowest at an earlier commit;
- a window is emitted once and never revised;
- hopping windows share panes, cut at window starts and ends, so cost does not grow with the overlap.

Source: KIP-328 (final results), Kafka Streams' TimeWindows and KTableSuppressProcessor; paired panes from Krishnamurthy et
al., "On-the-fly sharing for streamed aggregation" (SIGMOD 2006).
"""

from headrace.operators.windows.operator import WindowOperator

__all__ = ["WindowOperator"]
