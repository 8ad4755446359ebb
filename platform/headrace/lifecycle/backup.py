"""Back a lake up while its streams run, and restore it elsewhere.

Law: the copy is a lake whose processes were killed: for each node there is one moment at which none of its tables
changed, and for what it reads a later one. So no node has read further than the copy of its logs. A stream that starts
on the copy goes on as after a crash, from the offsets that the logs have.

A moment is found by reading the versions of all tables of a node twice. Versions only grow, so equal ones held in between.
Data files and commits never change; those of the versions read are copied afterwards, beside the streams.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.errors import TerminalError, TransientError
from headrace.lake import small_files
from headrace.lake.care.merge import FOLDER as CHANGES
from headrace.lake.care.vacuum import UNUSED
from headrace.lake.format import NAME as MARK
from headrace.lake.format import RESTORING, is_known
from headrace.lake.storage import is_within
from headrace.lake.tables import open_table
from headrace.nodes.descriptions.topics import reads, upstream_first

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake.commits.snapshot import Snapshot
    from headrace.lake.paths import Lake

MANIFEST = "backup.json"
FORMAT = 1
OF_NODES = ("tables", "state", "node_logs", "unusable", "refused")
# Copies that somebody works on or has put by, who writes, and what is asked of those who run: of no use elsewhere.
LEFT_OUT = re.compile(r"(leases|beside|rebuilds|former|last_errors)/|notices/requests/|.*\.handover$")
UNDER_WAY = re.compile(r"(erasing|beside_logs|repairs)/[^/]+|state/[^/]+/(standing|repairing)\.json$")
# What people's acts leave: none may fall between two moments.
ACTS = re.compile(r"(cuts|erasures|changes|renamed)/")
READER = re.compile(r"notices/readers/node/([^/]+)/([^/]+)\.json")  # see `Lake.readers`
HISTORY, CHANGE_DATA = "_delta_log/", "_change_data/"
# Below a table: what its versions name, and what is on its way into a commit or out of the table. Other files there whose
# names begin with an underscore are the log's own: its promise, the cut of it, its schemas, its guard, what was redriven.
OF_VERSIONS = (HISTORY, CHANGE_DATA, f"{CHANGES}/", f"{UNUSED}/")
ATTEMPTS, PAUSE_SECONDS, COPIERS = 200, 0.05, 8
Reached = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Backup:
    """The content of a backup.

    In: at      when it was begun, UTC in ISO 8601
        tables  the version of each Delta table, by its path below the lake's root
        files   the number of files
        bytes   their size
    """

    at: str
    tables: Mapping[str, int]
    files: int
    bytes: int

    def __str__(self) -> str:
        return (
            f"{len(self.tables)} tables, {self.files:,} files, {self.bytes / 1e6:,.1f} MB, begun at {self.at}"
        )


def back_up(lake: Lake, nodes: Sequence[Node], target: str, reached: Reached) -> Backup:
    """Copy a lake to an empty place; its streams may run.

    In:     nodes    of the pipeline: they say who reads whom; of other pipelines the lake's notices do
            target   a URI
            reached  called with files copied, files in all, and what is copied
    Raises: TerminalError when something lies at the target, there is no lake, or a repair, an erasure or a change
            is under way, or a restore of the lake has not ended;
            TransientError when such an act falls into the backup, a node commits without a pause, or a file went before
            it was copied
    """
    at = datetime.now(UTC).isoformat(timespec="seconds")
    paths = small_files.names_below(lake.root)
    _require_copyable(lake.root, paths, target)
    acts = _acts(lake.root, paths)
    tables: dict[str, int] = {}
    names: list[str] = []
    for group, members in _in_order(paths, _readers_first(paths, nodes)):
        moment = _moment(lake.root, group, members)
        for path, content in moment.contents.items():
            small_files.write_bytes(f"{target}/{path}", content)
        for table, snapshot in moment.snapshots.items():
            tables[table] = snapshot.version
            names += _files_of(lake.root, table, snapshot)
    _require_no_act_since(lake.root, acts)
    _copy_all(lake.root, target, names, reached)
    _require_whole(lake.root, target, tables)
    files, size = small_files.usage(target)
    done = Backup(at, dict(sorted(tables.items())), files, size)
    small_files.write_json(f"{target}/{MANIFEST}", {"format": FORMAT, **vars(done)})
    return done


def restore(source: str, lake: Lake, reached: Reached) -> Backup:
    """Copy a backup to an empty lake. One that was interrupted goes on when it is called again.

    Raises: TerminalError when there is no whole backup, or the lake holds anything
    """
    facts = small_files.read_json(f"{source}/{MANIFEST}")
    if facts is None or facts.pop("format", None) != FORMAT:
        raise TerminalError(
            f"There is no whole backup at '{source}'.",
            hint=f"A backup that ended has a file {MANIFEST}. Name the URI that `headrace backup` was given.",
        )
    backup = Backup(**facts)
    there = {*small_files.names_below(lake.root)}
    mark = f"{lake.root}/{MARK}"
    if there and small_files.read_json(mark) != {RESTORING: source}:
        raise TerminalError(
            f"The lake '{lake.root}' is not empty.",
            hint="Restore to an empty place: --lake URI, or HEADRACE_LAKE.",
        )
    small_files.write_json(mark, {RESTORING: source})  # nobody writes into a lake with such a mark
    wanted = [path for path in small_files.names_below(source) if path not in (MANIFEST, MARK)]
    # A file that was there when the copying broke off may be half of one, where the store is a disk. So all are copied.
    _copy_all(source, lake.root, sorted(wanted, key=lambda path: HISTORY in path), reached)
    _require_whole(source, lake.root, backup.tables)
    _end_restore(source, mark)
    return backup


def _end_restore(source: str, mark: str) -> None:
    """Give the lake the mark of the one that was backed up; a driver's lake may have none."""
    of_source = small_files.read_json(f"{source}/{MARK}")
    if of_source is None:
        small_files.delete(mark)
    else:
        small_files.write_json(mark, of_source)


@dataclass(frozen=True)
class _Moment:
    snapshots: Mapping[str, Snapshot]
    contents: Mapping[str, bytes]  # of files that are no table's, by path


def _require_copyable(root: str, paths: Sequence[str], target: str) -> None:
    if not paths:
        raise TerminalError(f"There is no lake at '{root}'.", hint="Name it: --lake URI, or HEADRACE_LAKE.")
    if is_within(target, root):
        raise TerminalError(
            f"The backup '{target}' would lie in the lake '{root}'.", hint="Name another place."
        )
    if small_files.names_below(target):
        raise TerminalError(f"Something lies at '{target}'.", hint="Give each backup a place of its own.")
    is_known(root)  # it raises for a lake of another version, and for one that is half restored
    busy = next(filter(UNDER_WAY.match, paths), None)
    if busy is not None:
        raise TerminalError(
            f"A repair, an erasure or a change is under way in the lake '{root}': {busy}",
            hint="Wait until it has ended, or run the same command again if it broke off.",
        )


def _acts(root: str, paths: Iterable[str]) -> Mapping[str, bytes | None]:
    """The files that acts of people have left in the lake, by path."""
    return {path: small_files.read_bytes(f"{root}/{path}") for path in sorted(filter(ACTS.match, paths))}


def _require_no_act_since(root: str, before: Mapping[str, bytes | None]) -> None:
    """Raise TransientError when somebody has cut a log, erased, repaired or changed something between two moments."""
    paths = small_files.names_below(root)
    after = _acts(root, paths)
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    changed += filter(UNDER_WAY.match, paths)
    if changed:
        raise TransientError(
            f"A log was cut, or a repair, an erasure or a change began, while the lake '{root}' was copied: {changed[0]}",
            hint="Begin again, at an empty place, once it has ended.",
        )


def _readers_first(paths: Iterable[str], nodes: Sequence[Node]) -> list[str]:
    """The nodes, each before those that it reads."""
    readers: defaultdict[str, set[str]] = defaultdict(set)
    described = upstream_first(nodes)
    for node in described:
        readers[node.required_name] |= {each.required_name for each in described if reads(each, node)}
    for path in paths:
        if (noted := READER.fullmatch(path)) is not None:
            readers[noted[1]].add(noted[2])
    return [*TopologicalSorter(readers).static_order()]


def _in_order(paths: Iterable[str], readers_first: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The files in groups that have one moment each: readers before what they read, then logs, then the rest."""
    groups: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    place = {name: 1 + number for number, name in enumerate(readers_first)}
    for path in paths:
        if LEFT_OUT.match(path):
            continue
        kind, _, rest = path.partition("/")
        name = rest.partition("/")[0]
        if kind in OF_NODES:
            groups[place.get(name, 0), f"node '{name}'"].append(path)
        elif kind == "logs":
            groups[len(place) + 1, f"log '{name}'"].append(path)
        else:
            groups[len(place) + 2, "the lake's own files"].append(path)
    return [(group, groups[rank, group]) for rank, group in sorted(groups)]


def _moment(root: str, group: str, paths: Sequence[str]) -> _Moment:
    """One moment of a group: the newest versions of its tables, and its other files as they were then."""
    tables = sorted({path.partition(f"/{HISTORY}")[0] for path in paths if f"/{HISTORY}" in path})
    folders = sorted({"/".join(path.split("/")[:2]) for path in paths}) if tables else []
    for _ in range(ATTEMPTS):
        snapshots = {table: open_table(f"{root}/{table}").snapshot() for table in tables}
        # A new file may be there by now: that of a micro-batch that was planned since.
        now = [
            f"{folder}/{path}" for folder in folders for path in small_files.names_below(f"{root}/{folder}")
        ]
        contents = {
            path: small_files.read_bytes(f"{root}/{path}")
            for path in (now if tables else paths)
            if _is_small(path, tables)
        }
        again = {table: open_table(f"{root}/{table}").snapshot().version for table in tables}
        if again == {table: each.version for table, each in snapshots.items()}:
            return _Moment(snapshots, {path: each for path, each in contents.items() if each is not None})
        time.sleep(PAUSE_SECONDS)
    raise TransientError(
        f"Backup: {group} commits faster than its tables are listed.",
        hint="Pause it meanwhile: headrace pause NODE; or give the stream a longer trigger.",
    )


def _is_small(path: str, tables: Sequence[str]) -> bool:
    """Whether a file is no table's, or lies below a table and belongs to none of its versions."""
    table = next((each for each in tables if path.startswith(f"{each}/")), None)
    below = "_" if table is None else path.removeprefix(f"{table}/")
    return below.startswith("_") and not below.startswith(OF_VERSIONS)


def _files_of(root: str, table: str, snapshot: Snapshot) -> list[str]:
    """The files of a table at a version: its data, its history up to there, and its changes."""
    history = [
        path for path in small_files.names_below(f"{root}/{table}") if path.startswith((HISTORY, CHANGE_DATA))
    ]
    kept = [path for path in history if _is_through(path, snapshot.version)]
    return [f"{table}/{path}" for path in (*map(unquote, snapshot.files), *kept)]


def _is_through(path: str, version: int) -> bool:
    if path.startswith(CHANGE_DATA):
        return True
    number = path.removeprefix(HISTORY).partition(".")[0]
    return (
        number.isdigit() and int(number) <= version
    )  # `_last_checkpoint` is but a hint, perhaps of a later version


def _copy_all(root: str, target: str, names: Sequence[str], reached: Reached) -> None:
    """Copy files, those first named first."""

    def copied(path: str) -> None:
        small_files.copy(f"{root}/{path}", f"{target}/{path}")

    with ThreadPoolExecutor(COPIERS) as pool:
        try:
            for number, _ in enumerate(pool.map(copied, names), 1):
                reached(number, len(names), "files")
        except FileNotFoundError as error:
            raise TransientError(
                f"A file went before it was copied: {error}", hint="Begin again, at an empty place."
            ) from None


def _require_whole(source: str, copy: str, tables: Mapping[str, int]) -> None:
    """Open each table of a copy as its readers do. Raises: TransientError when a version or a file is missing."""
    for table, version in tables.items():
        snapshot = open_table(f"{copy}/{table}").snapshot()
        there = {*small_files.names_below(f"{copy}/{table}")}
        missing = [path for path in map(unquote, snapshot.files) if path not in there]
        if snapshot.version != version or missing:
            raise TransientError(
                f"The copy of '{source}/{table}' is not whole: version {snapshot.version} of {version}, "
                f"{len(missing)} data files are missing.",
                hint="Begin again, at an empty place.",
            )
