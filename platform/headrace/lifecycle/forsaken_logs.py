"""Registrations of readers, and logs of former generations, that no node needs any more.

Laws:
- a registration is removed only if the node runs nowhere, and was last written by a description that does not read the log,
  or goes on under another name;
- a log of a former generation is removed only if no node in the lake was last written by a description that reads it, the
  tables of that generation are not kept for a rollback, and nothing was written to it for as long as files are kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.description import is_unnamed
from headrace.lake import small_files
from headrace.lifecycle.rebuilds.former import former_of
from headrace.nodes.descriptions.renamed import renamed_to
from headrace.writing.leases.lease import lease_taken_ms
from headrace.writing.leases.readers import SUFFIX, readers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock


def drop_registrations(lake: Lake, clock: Clock) -> list[str]:
    """Remove the registrations of readers that read a log no more; in words, which."""
    logs = [*small_files.names(lake.readers(""))]
    logs += [f"{node}@" for node in small_files.names(lake.readers("@"))]
    found = []
    for log in logs:
        for reader in readers_of(lake, log):
            if not may_read(lake, reader, log, clock):
                small_files.delete(f"{lake.readers(log)}/{reader}{SUFFIX}")
                found.append(f"{reader} of {log.removesuffix('@')}")
    return found


def may_read(lake: Lake, reader: str, log: str, clock: Clock) -> bool:
    """Whether a node reads a log, or may be about to: one without tables waits for its first row."""
    said = small_files.read_json(lake.description(reader))
    if said is None or lease_taken_ms(lake.lease(f"node/{reader}"), clock) is not None:
        return True
    if renamed_to(lake, reader) is not None:
        return False
    return f'"topic": "{log}' + ("" if log.endswith("@") else '"') in json.dumps(said["rules"])


def former_logs(lake: Lake, before_ms: int) -> Iterator[str]:
    """The logs of former generations of nodes, as `<node>@<generation>`. In: before_ms  nothing was written since."""
    given = [
        f"{node}@{generation}"
        for node in small_files.names(f"{lake.root}/node_logs")
        if not is_unnamed(node) and (current := _current(lake, node)) is not None
        for generation in small_files.names(f"{lake.root}/node_logs/{node}")
        if generation not in current
    ]
    tables = small_files.names(f"{lake.root}/tables") if given else []
    rules = [json.dumps(small_files.read_json(lake.description(name))) for name in tables]
    for log in given:
        if not any(f'"{log}"' in text for text in rules) and _written_ms(lake, log) <= before_ms:
            yield log


def _current(lake: Lake, node: str) -> set[str] | None:
    """The generations of a node that are written, being built, or kept; None: the lake does not tell."""
    said, former = small_files.read_json(lake.description(node)), former_of(lake, node)
    if said is None:
        return None
    kept = [] if former is None else [former.fingerprint[:12], former.replaced_by[:12]]
    return {said["fingerprint"][:12], *kept, *small_files.names(lake.rebuilds(node))}


def _written_ms(lake: Lake, log: str) -> int:
    commit = lakes.last_commit(lakes.open_table(lake.log(log)), f"log/{log}")
    return 0 if commit is None else int(commit.record["ingested_at_ms"])
