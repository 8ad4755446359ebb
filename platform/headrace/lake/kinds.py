"""Delta's properties for each kind of table: what its readers rely on, and how long commits and removed files are kept.

A commit lists the commit files that are kept, so tables that get one each second keep few of them. Readers of a change
feed and streaming readers find the commits of a result table for `RESULTS_COMMITS`; after that they read the table itself.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMITS, RESULTS_COMMITS, REMOVED_FILES = "interval 10 minutes", "interval 6 hours", "interval 168 hours"
# Every table pins these, whatever the defaults of a platform are. Checkpoints are written beside the commits.
PINNED: Mapping[str, str] = {
    "delta.columnMapping.mode": "none",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "100000",
    "delta.enableExpiredLogCleanup": "true",
    "delta.logRetentionDuration": COMMITS,
    "delta.deletedFileRetentionDuration": REMOVED_FILES,
}
RESULTS: Mapping[str, str] = {
    "delta.enableChangeDataFeed": "true",
    "delta.logRetentionDuration": RESULTS_COMMITS,
}


def log(skipping: tuple[str, ...]) -> Mapping[str, str]:
    """A log: rows are only added. In: skipping  the columns by which readers leave files out."""
    return {"delta.appendOnly": "true", "delta.dataSkippingStatsColumns": ",".join(skipping)}


def state(skipping: tuple[str, ...]) -> Mapping[str, str]:
    """A node's state. In: skipping  the columns by which readers leave files out; none: all of them."""
    return {"delta.dataSkippingStatsColumns": ",".join(skipping)} if skipping else {}
