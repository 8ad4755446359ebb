"""One Delta table and the Iceberg table that names its files.

A round: (1) the Iceberg table is read, (2) the newest version of the Delta table, (3) their difference is committed. In this
order a round that has read an older version than another one has committed fails at (3): the snapshot is not that of (1).
It begins anew.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from headrace.errors import TerminalError, TransientError
from headrace.lake import open_table, small_files
from headrace.lake.care.vacuum import HOUR_MS, SETTLED_HOURS
from headrace.mirror.catalog import asked, file_uri
from headrace.mirror.columns import data_file, grows_into, iceberg_schema, name_mapping, types, visible
from headrace.mirror.replacement import replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.lake import Snapshot

P = ParamSpec("P")
T = TypeVar("T")
VERSION, SOURCE, FINAL_THROUGH = "delta.version", "headrace.table", "headrace.final-through"
MAPPING = "schema.name-mapping.default"
PROPERTIES = {
    "format-version": "2",
    # A commit that another one overtakes would be tried again with the same files, and name them twice.
    "commit.retry.num-retries": "0",
    "gc.enabled": "false",  # other engines delete no data file: it is Delta's
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


ROUNDS = 5  # that may be overtaken


def _asks(method: Callable[Concatenate[MirroredTable, P], T]) -> Callable[Concatenate[MirroredTable, P], T]:
    """A method whose questions to the catalog may fail (see `asked`)."""

    @wraps(method)
    def asking(self: MirroredTable, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with asked(self._catalog):
            return method(self, *args, **kwargs)

    return asking


@dataclass(frozen=True)
class Round:
    """The outcome of a round. In: added, removed  files; `version` of the Delta table that the mirror now equals."""

    version: int
    added: int = 0
    removed: int = 0


class MirroredTable:
    """The mirror of one Delta table. One thread works on it at a time."""

    def __init__(self, catalog: Any, identifier: tuple[str, str], uri: str) -> None:
        """Nothing is read yet. In: identifier  namespace and name in the catalog; uri: of the Delta table."""
        self._catalog, self._identifier, self.uri = catalog, identifier, uri
        self._delta, self._base = open_table(uri), file_uri(uri)
        self._entries: tuple[str, dict[str, Any]] | None = None  # by the file of metadata that names them

    @property
    def name(self) -> str:
        """The table's name in the catalog, with its namespace."""
        return ".".join(self._identifier)

    @_asks
    def follow(self, snapshots_hours: float, final_through: str | None = None) -> Round:
        """Let the mirror equal the newest version of the Delta table.

        In:     snapshots_hours  snapshots that are older leave
                final_through    the last day that is final, for the snapshot's properties
        Raises: TerminalError when the catalog has a table of this name that is not ours; TransientError when it is away, or
                other mirrors come between again and again
        """
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(ROUNDS):
            with suppress(CommitFailedException):
                return self._round(snapshots_hours, final_through)
        raise TransientError(
            f"Others have changed {self.name} in the Iceberg catalog during each of {ROUNDS} rounds.",
            hint="Mirror it again. A stream does so by itself.",
        )

    def _round(self, snapshots_hours: float, final_through: str | None) -> Round:
        table = self._open()
        now = self._delta.snapshot()
        entries = self._entries_of(table)
        wanted = {f"{self._base}/{name}" for name in now.files}
        columns = iceberg_schema(visible(self._delta.schema))
        has, needs = types(table.schema()), types(columns)
        is_other = not grows_into(has, needs)
        gone = [path for path in entries if path not in wanted or is_other]
        new = sorted(wanted if is_other else wanted - entries.keys())
        changes = bool(gone or new or has != needs or table.current_snapshot() is None)
        old = self._expired(table, snapshots_hours, all_of_them=is_other)
        if not changes and not old:
            return Round(now.version)
        with table.transaction() as work:
            if has != needs:
                _change_columns(work, has, needs, columns)
            mapping = {MAPPING: name_mapping(work.table_metadata.schema(), self._delta.schema)}
            if mapping[MAPPING] != work.table_metadata.properties.get(MAPPING):
                work.set_properties(**mapping)
            if changes:
                commit = replacement(work, table.io, self._summary(now, final_through), removes=bool(gone))
                for path in gone:
                    commit.delete_data_file(entries[path])
                for path in new:
                    commit.append_data_file(data_file(work.table_metadata, table.io, path))
                commit.commit()
            if old:
                _expire(work, old)
        return Round(now.version, len(new), len(gone))

    @_asks
    def names(self) -> set[str]:
        """The files of the Delta table that live snapshots of the mirror name: none of them may be deleted."""
        if not self._catalog.table_exists(self._identifier):
            return set()
        table = self._catalog.load_table(self._identifier)
        paths = {
            entry.data_file.file_path
            for manifest in _manifests(table).values()
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        }
        return {path.removeprefix(f"{self._base}/") for path in paths}

    @_asks
    def remove_unused(self) -> int:
        """Delete manifests and lists of them that no live snapshot names. Out: how many.

        Young ones stay: a commit may be about to name them.
        """
        if not self._catalog.table_exists(self._identifier):
            return 0
        folder = f"{self._catalog.load_table(self._identifier).location()}/metadata"
        before_ms = time.time() * 1000 - SETTLED_HOURS * HOUR_MS
        there = [name for name in small_files.names(folder) if name.endswith(".avro")]
        old = [name for name in there if small_files.modified_ms(f"{folder}/{name}") < before_ms]
        # After the listing: what it names now was there, or is young.
        table = self._catalog.load_table(self._identifier)
        named = {each.manifest_list for each in table.metadata.snapshots} | _manifests(table).keys()
        gone = {*old} - {path.rpartition("/")[2] for path in named}
        small_files.delete_files(f"{folder}/{name}" for name in gone)
        return len(gone)

    @_asks
    def mirrored(self) -> tuple[Any, int] | None:
        """The Iceberg table, and the version of the Delta table that its newest snapshot equals; None: there is none."""
        if not self._catalog.table_exists(self._identifier):
            return None
        table = self._catalog.load_table(self._identifier)
        newest = table.current_snapshot()
        return None if newest is None else (table, int(newest.summary[VERSION]))

    def has_own_mapping(self, iceberg: Any) -> bool:
        """False if the catalog has put a mapping of its own in place of ours: pyiceberg then reads no file of the table."""
        return bool(iceberg.properties.get(MAPPING) == name_mapping(iceberg.schema(), self._delta.schema))

    def final_through(self) -> str:
        """The last day that was final when the newest snapshot was made, as a date; empty: none was known to be."""
        found = self.mirrored()
        return "" if found is None else str(found[0].current_snapshot().summary.get(FINAL_THROUGH) or "")

    @_asks
    def entries(self) -> Mapping[str, Any]:
        """The data files of the newest snapshot, by the name that Delta has for them."""
        table = self._catalog.load_table(self._identifier)
        return {path.removeprefix(f"{self._base}/"): of for path, of in self._entries_of(table).items()}

    def _open(self) -> Any:
        if not self._catalog.table_exists(self._identifier):
            columns = iceberg_schema(visible(self._delta.schema))
            properties = PROPERTIES | {SOURCE: self._base}
            self._catalog.create_table_if_not_exists(self._identifier, columns, properties=properties)
        table = self._catalog.load_table(self._identifier)
        if (source := table.properties.get(SOURCE)) != self._base:
            raise TerminalError(
                f"The catalog's table {self.name} is not the mirror of {self._base}.",
                detail=f"It mirrors {source}." if source else "It mirrors nothing.",
                hint="Give this lake a namespace of its own: HEADRACE_ICEBERG_NAMESPACE. If both are of "
                "this lake, their names differ in signs that catalogs do not take: leave one of them out of "
                "HEADRACE_ICEBERG_NODES or HEADRACE_ICEBERG_LOGS.",
            )
        return table

    def _entries_of(self, table: Any) -> dict[str, Any]:
        """The data files of the newest snapshot by path; they are read again only if another has committed."""
        if self._entries is None or self._entries[0] != table.metadata_location:
            newest = table.current_snapshot()
            found = {
                entry.data_file.file_path: entry.data_file
                for manifest in ([] if newest is None else newest.manifests(table.io))
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            }
            self._entries = (table.metadata_location, found)
        return self._entries[1]

    def _expired(self, table: Any, hours: float, *, all_of_them: bool) -> list[int]:
        """The snapshots that leave: the older ones, or, where columns become others, all that there are."""
        before = datetime.now(UTC) - timedelta(hours=hours)
        newest = table.current_snapshot()
        return [
            each.snapshot_id
            for each in table.metadata.snapshots
            if all_of_them
            or (each.timestamp_ms < before.timestamp() * 1000 and each.snapshot_id != newest.snapshot_id)
        ]

    def _summary(self, now: Snapshot, final_through: str | None) -> dict[str, str]:
        final = {} if final_through is None else {FINAL_THROUGH: final_through}
        return {VERSION: str(now.version)} | final


def _manifests(table: Any) -> dict[str, Any]:
    """The manifests of all live snapshots, by path."""
    return {
        manifest.manifest_path: manifest
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }


def _change_columns(work: Any, has: Mapping[str, Any], needs: Mapping[str, Any], columns: Any) -> None:
    """Columns that stay keep their identifiers; of those that become others the files are named anew."""
    others = [name for name, of in has.items() if not grows_into({name: of}, needs)]
    if others:
        with work.update_schema(allow_incompatible_changes=True) as update:
            for name in others:
                update.delete_column(name)
    with work.update_schema() as update:
        update.union_by_name(columns)


def _expire(work: Any, snapshots: list[int]) -> None:
    from pyiceberg.table.update.snapshot import ExpireSnapshots

    heads = {ref.snapshot_id for ref in work.table_metadata.refs.values()}
    ExpireSnapshots(work).by_ids([each for each in snapshots if each not in heads]).commit()
