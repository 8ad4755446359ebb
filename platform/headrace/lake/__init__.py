"""The lake: Delta tables and small files at URIs, on a local disk and on object stores alike.

Law: each commit names its version and its writer, so no writer that was overtaken can add a row (see `fence`, L29). Work per
commit does not grow with the table's history (see `snapshot`, `upkeep`).

delta-rs writes every commit, through its public interface; obstore reads and writes small files. Both are imported where
they are used, for their runtime does not survive a fork, and PySpark forks its workers.
"""

from headrace.lake.care.maintaining import as_maintainer
from headrace.lake.commits.epochs import appender_epoch, require_own_rows
from headrace.lake.commits.fence import (
    APPENDER,
    MAINTAINER,
    ConflictError,
    FencedError,
    ForeignCommitError,
    UnknownOutcomeError,
)
from headrace.lake.commits.history import Commit, all_carried, carried, last_commit
from headrace.lake.commits.snapshot import DataFile, Snapshot
from headrace.lake.commits.writer import TableWriter
from headrace.lake.files.data_file import DataFileWriter, Encoding, NewFile
from headrace.lake.table import LakeTable
from headrace.lake.tables import create, exists, forget, open_table

__all__ = [
    "APPENDER",
    "MAINTAINER",
    "Commit",
    "ConflictError",
    "DataFile",
    "DataFileWriter",
    "Encoding",
    "FencedError",
    "ForeignCommitError",
    "LakeTable",
    "NewFile",
    "Snapshot",
    "TableWriter",
    "UnknownOutcomeError",
    "all_carried",
    "appender_epoch",
    "as_maintainer",
    "carried",
    "create",
    "exists",
    "forget",
    "last_commit",
    "open_table",
    "require_own_rows",
]
