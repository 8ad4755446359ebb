"""Steps without a name that nothing reads any more: what they kept is removed.

Law: a step is removed only if no node in the lake was last written by a description that reads it, no process runs it, and
it has folded nothing for as long as files are kept. A step that is removed too early for a pipeline that was stopped is
folded from its logs again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.description import is_unnamed
from headrace.lake import small_files
from headrace.writing.fold_aside import drop_scratch
from headrace.writing.leases.lease import lease_taken_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock


def forsaken_steps(lake: Lake, described: Collection[str], before_ms: int, clock: Clock) -> Iterator[str]:
    """The names of such steps.

    In: described  the names of nodes that are left alone
        before_ms  a step has folded no log commit after this time
    """
    nodes = small_files.names(f"{lake.root}/tables")
    steps = [name for name in nodes if is_unnamed(name) and name not in described]
    rules = [json.dumps(small_files.read_json(lake.description(name))) for name in nodes] if steps else []
    for step in steps:
        is_read = any(f'"{step}@' in text for text in rules)
        runs = lease_taken_ms(lake.lease(f"node/{step}"), clock) is not None
        if not is_read and not runs and _folded_ms(lake, step) <= before_ms:
            yield step


def remove_step(lake: Lake, step: str) -> None:
    """Remove all that a step kept."""
    drop_scratch(lake, step)
    for folder in ("state", "unusable", "node_logs", "rebuilds", "refused", "tables"):
        path = f"{lake.root}/{folder}/{step}"
        small_files.delete(path)
        lakes.forget(path)


def _folded_ms(lake: Lake, step: str) -> int:
    """The newest commit time that a step has folded; 0: none."""
    if not lakes.exists(lake.state(step)):
        return 0
    commit = lakes.last_commit(lakes.open_table(lake.state(step)), f"node/{step}")
    return 0 if commit is None else max(commit.record["progress"]["upto_ms"].values(), default=0)
