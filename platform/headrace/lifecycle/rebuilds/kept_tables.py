"""Tables that lie beside those of a node: half-built ones of a change, those that it replaced, and folds that died.

Law: they may be of other descriptions than the tables, and have read other logs. So what was made of a log is found by the
logs that they have read themselves, and of any node of the lake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.lake import small_files
from headrace.lifecycle.rebuilds.former import drop_former, drop_unused_log, former_of
from headrace.lifecycle.rebuilds.pasts import NOTE
from headrace.writing.fold_aside import drop_scratch, logs_of_scratch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.lake.paths import Lake

FOLDERS = ("former", "rebuilds", "beside")


def nodes_with_kept(lake: Lake, logs: Collection[str]) -> list[str]:
    """The nodes beside whose tables lie some that were made of a log, directly or through nodes, or that do not tell.

    In: logs  topics by name; of what a node gives `<node>@`, whatever its generation
    """
    names = {name for folder in FOLDERS for name in small_files.names(f"{lake.root}/{folder}")}
    left = {name: [*_logs_read(lake, name)] for name in sorted(names)}
    found, made = list[str](), {*logs}
    while new := [
        name for name, read in left.items() if any(each is None or made & {*each} for each in read)
    ]:
        found += new
        made |= {f"{name}@" for name in new}
        left = {name: read for name, read in left.items() if name not in new}
    return found


def _logs_read(lake: Lake, name: str) -> Iterator[list[str] | None]:
    """The logs that each of a node's kept tables have read; None: they do not tell."""
    if small_files.names(lake.former(name)):
        former = former_of(lake, name)
        yield None if former is None or not former.pasts else _plain(former.pasts)
    for generation in small_files.names(lake.rebuilds(name)):
        noted = small_files.read_json(f"{lake.rebuilds(name)}/{generation}/{NOTE}")
        yield None if noted is None else _plain(noted)
    if (folded := logs_of_scratch(lake, name)) is not None:
        yield _plain(folded)


def _plain(logs: Collection[str]) -> list[str]:
    return [log if "@" not in log else f"{log.partition('@')[0]}@" for log in logs]


def drop_kept(lake: Lake, name: str) -> None:
    """Delete all that lies beside a node's tables, and what it gave to others by descriptions of which nobody reads.

    The caller holds the leases of the node's rebuilds and backfills.
    """
    drop_former(lake, name)
    drop_rebuilds(lake, name)
    drop_scratch(lake, name)
    for generation in small_files.names(f"{lake.root}/node_logs/{name}"):
        drop_unused_log(lake, name, generation)


def drop_rebuilds(lake: Lake, name: str) -> None:
    """Delete all rebuilds of a node."""
    small_files.delete(lake.rebuilds(name))
    lakes.forget(lake.rebuilds(name))
