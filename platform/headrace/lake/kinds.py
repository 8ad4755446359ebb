"""Delta's properties for each kind of table: what its readers rely on, and how much of its past is kept.

Two parts of the past make work slower, so each kind of table bounds both.

- *Commit files*: on a local disk every commit lists those that are kept. Readers of a change feed and streaming readers need
  those of result tables, so these stay for hours, but no more than `COMMITS_MAX` of them.
- *Tombstones*: every checkpoint names the files that were removed. They are forgotten soon, for `vacuum` does not rely on
  them (see `headrace.lake.care.vacuum`).
"""

from __future__ import annotations

from collections.abc import Mapping

COMMITS, RESULTS_COMMITS, TOMBSTONES = "interval 5 minutes", "interval 6 hours", "interval 30 minutes"
COMMITS_MAX, RESULTS_COMMITS_MAX = "headrace.commitsMax", "2000"  # a property of ours, which Delta carries
# Every table pins these, whatever the defaults of a platform are. Checkpoints are written beside the commits.
PINNED: Mapping[str, str] = {
    "delta.columnMapping.mode": "none",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "100000",
    "delta.enableExpiredLogCleanup": "true",
    "delta.logRetentionDuration": COMMITS,
    "delta.deletedFileRetentionDuration": TOMBSTONES,
}
RESULTS: Mapping[str, str] = {
    "delta.enableChangeDataFeed": "true",
    "delta.logRetentionDuration": RESULTS_COMMITS,
    COMMITS_MAX: RESULTS_COMMITS_MAX,
}


def log(skipping: tuple[str, ...]) -> Mapping[str, str]:
    """A log: rows are only added. In: skipping  the columns by which readers leave files out."""
    return {"delta.appendOnly": "true", "delta.dataSkippingStatsColumns": ",".join(skipping)}


def state(skipping: tuple[str, ...]) -> Mapping[str, str]:
    """A node's state. In: skipping  the columns by which readers leave files out; none: all of them."""
    return {"delta.dataSkippingStatsColumns": ",".join(skipping)} if skipping else {}
