"""Undo what somebody else did to the rows of a table, such as a `RESTORE`: its files become those of the version before.

Law: afterwards the table has exactly the files that it had at the newest version that Headrace had judged, so progress and
rows agree again. A compaction by other hands in between is undone with the rest; it had changed no row.

`RESTORE` and `DELETE` take files out of the newest version and leave them on disk until a vacuum, so they can come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.commits.epochs import foreign_commits
from headrace.lake.commits.fence import MAINTAINER
from headrace.lake.commits.snapshot import stats_json
from headrace.lake.commits.writer import TableWriter
from headrace.lake.files.data_file import NewFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.lake.commits.snapshot import DataFile
    from headrace.lake.table import LakeTable

MISSING_SHOWN = 3


class FilesGoneError(TerminalError):
    """Files that would have to come back are not on disk any more."""


def undo_foreign(table: LakeTable, record: Mapping[str, Any], carries: Sequence[str]) -> list[str]:
    """Undo every commit by somebody else that changed rows and was not undone.

    In:     record   of the commit that undoes them
            carries  the writers whose newest records are repeated
    Out:    their names, such as `RESTORE (version 7)`; none: there was none, and no commit was made
    Raises: FilesGoneError, before anything is changed
    """
    commits = foreign_commits(table)
    if not commits:
        return []
    before, now = table.files_at(commits[0].version - 1), table.snapshot().files
    lost = {name: file for name, file in before.items() if name not in now}
    _require_there(table, lost)
    gained = {name: file for name, file in now.items() if name not in before}
    schema = table.schema
    times = {field.name: field.type.tz for field in schema if pa.types.is_timestamp(field.type)}
    back = [NewFile(name, file.size, stats_json(file, schema.names, times)) for name, file in lost.items()]
    TableWriter(table, MAINTAINER, carries=carries, mends=True).replace(
        gained, back, record, changes_data=True
    )
    return [f"{found.operation or 'a commit'} (version {found.version})" for found in commits]


def _require_there(table: LakeTable, files: Mapping[str, DataFile]) -> None:
    gone = [name for name in files if not small_files.exists(f"{table.uri}/{name}")]
    if gone:
        raise FilesGoneError(
            f"The table at {table.uri}: {len(gone):,} of the files that somebody took out of it are deleted.",
            detail=", ".join(gone[:MISSING_SHOWN]) + (", …" if len(gone) > MISSING_SHOWN else ""),
            hint="Restore the table's files from a backup.",
        )
