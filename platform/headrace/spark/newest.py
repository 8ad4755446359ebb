"""Read Delta tables by the files that commits name, where asking Delta would rebuild its list of them each time.

That is a Spark job or two after every commit, and grows with the table. The commits say the same (public protocol), and
name few files. Law: the rows are those that Delta would read.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F

from headrace.spark import tables
from headrace.spark.frames import in_one_task, local_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NEWEST = 32  # commits that are looked at one by one
FILES_MAX = 32  # read by name: the status of each is asked for,
LOCAL_FILES_MAX = 256  # which a local disk knows at once


@dataclass(frozen=True)
class File:
    """A file of a table: how many bytes it has, and Delta's statistics of it (JSON), if there are any."""

    size: int
    stats: str | None

    @property
    def rows(self) -> int:
        """How many there are; of a file without statistics 0."""
        return int(json.loads(self.stats or "{}").get("numRecords", 0))

    def may_have(self, column: str, first: int, last: int | None) -> bool:
        """Whether it may have rows where a column is from `first` through `last` (None: no bound), by its statistics."""
        known = json.loads(self.stats) if self.stats else {}
        lowest, highest = (known.get(bound, {}).get(column) for bound in ("minValues", "maxValues"))
        too_low = highest is not None and highest < first
        too_high = last is not None and lowest is not None and lowest > last
        return not (too_low or too_high)


def pinned(spark: SparkSession, path: str, version: int) -> DataFrame:
    """The table as it was at a version, its files listed once for however many queries.

    A query of a Delta table asks Delta for the files each time, which is a Spark job of its own.
    """
    table = tables.read(spark, path, version)
    if tables.is_mapped(table.schema):
        return table
    named = _named(spark, path, version)
    return rows_of_files(spark, table.inputFiles() if named is None else named, table.schema)


def read_table(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """The table as of now or at a version; one that few commits made by the files that these name."""
    known = tables.latest_version(spark, path) if version is None else version
    table = tables.read(spark, path, version)
    named = None if tables.is_mapped(table.schema) else _named(spark, path, known)
    return table if named is None else rows_of_files(spark, named, table.schema)


def _named(spark: SparkSession, path: str, version: int) -> list[str] | None:
    """The files of a version by all commits that led to it; None when these, or the files, are too many or not all there."""
    if version >= NEWEST:
        return None
    names: dict[str, File] = {}
    for number in range(version + 1):
        actions = tables.found_actions(spark, path, number)
        if actions is None or any("deletionVector" in action.get("add", ()) for action in actions):
            return None
        _apply(names, actions)
    return [f"{path}/{name}" for name in names] if len(names) <= _files_max(path) else None


def _apply(names: dict[str, File], actions: Iterable[Mapping[str, Any]]) -> None:
    """Take out of the files of a table those that a commit removes; put in those that it adds."""
    for action in actions:
        if "remove" in action:
            names.pop(unquote(action["remove"]["path"]), None)
    added = (action["add"] for action in actions if "add" in action)
    names |= {unquote(add["path"]): File(add["size"], add.get("stats")) for add in added}


def _listed(spark: SparkSession, path: str) -> tuple[int, dict[str, File]]:
    """The table's newest version, as Delta knows it, and its files by name."""
    version, listed = tables.files_of(spark, path)
    return version, {unquote(row["path"]): File(row["size"], row["stats"]) for row in listed}


def newest_rows(
    spark: SparkSession,
    path: str,
    schema: StructType,
    writer: str,
    place: Callable[[Mapping[str, Any]], int],
    *,
    after: int,
    through: int,
    consecutive: bool = False,
    wanted: Callable[[int], bool] = lambda place: True,
) -> DataFrame | None:
    """The rows that the newest commits of a writer appended, whatever the length of the table's history.

    In:     place  where the commit with a record stands; it grows from commit to commit
            after, through  take the commits that stand beyond the one and not beyond the other
            consecutive     each commit stands one beyond the one before
            wanted          of these, whether to take the one at a place
    Out:    None when the table itself must be asked: that is too long ago, other commits changed rows since, or maintenance
            has packed the files, which then may be gone
    """
    if tables.is_mapped(schema):
        return None
    added: list[str] = []
    packed: set[str] = set()
    version = tables.latest_version(spark, path)
    for number in range(version, max(-1, version - NEWEST), -1):
        actions = tables.found_actions(spark, path, number)
        if actions is None:
            return None
        record = tables.record_of(actions)
        if record is not None and record.get("writer") == writer:
            if place(record) <= after:
                return rows_of_files(spark, added, schema)
            if place(record) <= through and wanted(place(record)):
                came = [action["add"]["path"] for action in actions if "add" in action]
                if not packed.isdisjoint(came):
                    return None
                added += [f"{path}/{unquote(name)}" for name in came]
            if consecutive and place(record) == after + 1:
                return rows_of_files(spark, added, schema)
        elif any(change.get("dataChange") for action in actions for change in action.values()):
            return None
        else:
            packed |= {action["remove"]["path"] for action in actions if "remove" in action}
    return rows_of_files(spark, added, schema) if version < NEWEST else None


def rows_of_files(spark: SparkSession, paths: Iterable[str], schema: StructType) -> DataFrame:
    """The rows of Parquet files by their names."""
    if not paths:
        return local_frame(spark, [], schema)
    return in_one_task(spark.read.schema(schema).option("__globPaths__", "false").parquet(*paths))


def _files_max(path: str) -> int:
    return LOCAL_FILES_MAX if path.startswith("file:") else FILES_MAX


def not_outweighed(rows: Mapping[str, int]) -> list[str]:
    """Of files, by name and number of rows, all but those that outweigh the rest.

    A row is then merged again only with as many others: as often as the logarithm of all rows.
    """
    names, rest = sorted(rows, key=lambda name: rows[name]), sum(rows.values())
    while names and rows[names[-1]] > rest - rows[names[-1]]:
        rest -= rows[names.pop()]
    return names


class Followed:
    """The newest version of a table, kept up with commit by commit. Several threads may ask."""

    def __init__(self, spark: SparkSession, path: str, schema: StructType) -> None:
        """In: schema of the table."""
        self._spark, self.path, self.schema = spark, path, schema
        self._version = -1
        self._files: dict[str, File] = {}
        self._lock = threading.Lock()

    def read(self, column: str | None = None, first: int = 0, last: int | None = None) -> DataFrame:
        """The table as of now; with a column, at least the rows where it is from `first` through `last` (None: no bound)."""
        version, known = self.now()
        if tables.is_mapped(self.schema):
            return tables.read(self._spark, self.path, version)
        names = [n for n, file in known.items() if column is None or file.may_have(column, first, last)]
        if len(names) <= _files_max(self.path):
            return self._rows_of(names)
        # Spark would list so many at once, in a job; Delta does when they are needed, and skips by a literal.
        table = tables.read(self._spark, self.path, version)
        if column is None:
            return table
        wanted = F.col(column) >= first
        return table.where(wanted if last is None else wanted & (F.col(column) <= last))

    def files(self) -> Mapping[str, File]:
        """The files of the table as of now, by name."""
        _, known = self.now()
        return known

    def bytes_after(self, column: str, after: int) -> int:
        """The size of the files that may have rows where a column is beyond `after`."""
        return sum(file.size for file in self.files().values() if file.may_have(column, after + 1, None))

    def to_merge(self, column: str, last: int, *, whole: bool) -> tuple[int, dict[str, File], DataFrame]:
        """Files to be put into fewer: all, or those without rows where a column is beyond `last`, if worth merging.

        Out: a version of the table that has them, by name; their rows
        """
        if whole:
            version, known = _listed(self._spark, self.path)
            return version, known, tables.read(self._spark, self.path, version)
        version, known = self.wholly_through(column, last)
        names = not_outweighed({name: file.rows for name, file in known.items()})
        return version, {name: known[name] for name in names}, self._rows_of(names)

    def wholly_through(self, column: str, last: int) -> tuple[int, dict[str, File]]:
        """The files that have no rows where a column is beyond `last`; of mapped columns nothing is known.

        Out: a version of the table that has them, by name
        """
        version, known = self.now()
        if tables.is_mapped(self.schema):
            return version, {}
        return version, {
            name: file
            for name, file in known.items()
            if file.stats and not file.may_have(column, last + 1, None)
        }

    def pinned(self, version: int) -> DataFrame:
        """The table as it was at a version, its files listed once for however many queries; the quicker the newer it is."""
        newest, known = self.now()
        if newest != version or tables.is_mapped(self.schema) or len(known) > _files_max(self.path):
            return pinned(self._spark, self.path, version)
        return self._rows_of(known)

    def now(self) -> tuple[int, dict[str, File]]:
        """The newest version and its files by name; the fewer commits since the last time, the quicker."""
        with self._lock:
            version = tables.latest_version(self._spark, self.path)
            if version - self._version > NEWEST or not self._catch_up(version):
                version, self._files = _listed(self._spark, self.path)
            self._version = version
            return version, self._files.copy()

    def _rows_of(self, names: Iterable[str]) -> DataFrame:
        return rows_of_files(self._spark, [f"{self.path}/{name}" for name in names], self.schema)

    def _catch_up(self, version: int) -> bool:
        """Apply the commits since; False when history is gone."""
        for number in range(self._version + 1, version + 1):
            actions = tables.found_actions(self._spark, self.path, number)
            if actions is None:
                return False
            _apply(self._files, actions)
        return True
