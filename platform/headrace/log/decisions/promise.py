"""How far a log is settled although nothing comes: a promise that no later row will lie at or before a commit time.

Across topics rows are ordered by commit time. A reader of several topics may read each as far as the least settled one.
Without promises a silent topic would hold up the others for ever.

Law: a promise is durable before anybody can rely on it, and every process that opens the log again keeps it.
"""

from __future__ import annotations

from headrace.lake import small_files

NAME = "_settled.json"  # below the log's table; Delta leaves alone what begins with an underscore


def write_promise(log_path: str, through_ms: int) -> None:
    """Promise that every later row of the log has an `ingested_at` beyond this, in ms."""
    small_files.write_json(f"{log_path}/{NAME}", {"through_ms": through_ms})


def read_promise(log_path: str) -> int:
    """The last promise, in ms; 0 if there is none."""
    promise = small_files.read_json(f"{log_path}/{NAME}")
    return 0 if promise is None else int(promise["through_ms"])
