"""Features of Delta that a platform's defaults or other hands switch on: which tables are read and written here.

Law: rows are read by the names of files and columns alone. So a table whose files have deletion vectors, or whose columns
have other names in the files, is refused, and never read wrongly. A table with a feature that delta-rs does not write is
refused before any write.

Delta never takes a feature back without a trace: `DROP FEATURE` adds `checkpointProtection`, which delta-rs does not write.
So a table may keep the features of deletion vectors and column mapping in its protocol, as long as it does not use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.lake.commits.metadata import TableMetadata

VECTORS, MAPPING = "deletionVectors", "columnMapping"
ENABLE_VECTORS, MAPPING_MODE = "delta.enableDeletionVectors", "delta.columnMapping.mode"
WRITTEN = {
    *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "timestampNtz"),
    *("variantType", VECTORS, MAPPING),
}

# To append to a table with these takes an `add` with statistics, and nothing else.
PLAIN = {"appendOnly", "invariants", "changeDataFeed", "timestampNtz"}
# The highest writer version without features that is plain; that with features.
PLAIN_WRITER, FEATURES_WRITER = (4, 7)


def is_plain(metadata: TableMetadata) -> bool:
    """Whether a commit file that names files is all it takes to change the table (Delta's protocol)."""
    constrained = any(name.startswith("delta.constraints.") for name in metadata.configuration)
    if metadata.partitioned_by or constrained:
        return False
    if metadata.writer_version == FEATURES_WRITER:
        return metadata.writer_features <= PLAIN
    return metadata.writer_version <= PLAIN_WRITER


def may_have_vectors(metadata: TableMetadata) -> bool:
    """Whether files of such a table may have deletion vectors."""
    return VECTORS in metadata.reader_features


def require_readable(uri: str, metadata: TableMetadata, *, has_vectors: bool) -> None:
    """Refuse a version of a table whose rows are not all that its files hold.

    Raises: TerminalError with the commands that put it right
    """
    if metadata.configuration.get(MAPPING_MODE, "none") != "none":
        raise _refusal(uri, MAPPING, f"ALTER TABLE {{}} SET TBLPROPERTIES ('{MAPPING_MODE}' = 'none')")
    if has_vectors:
        raise _vectors_refused(uri)


def require_writable(uri: str, metadata: TableMetadata) -> None:
    """Refuse a table to which delta-rs could not add a commit, or another client could add deletion vectors.

    Raises: TerminalError
    """
    if str(metadata.configuration.get(ENABLE_VECTORS, "false")).lower() == "true":
        raise _vectors_refused(uri)
    unknown = metadata.writer_features - WRITTEN
    if unknown:
        raise TerminalError(
            f"The table at {uri} uses {', '.join(sorted(unknown))}, which Headrace does not write.",
            detail="Nothing was changed. When a feature is dropped, Delta keeps a trace of it in the protocol.",
            hint="A node's tables: delete them, and the stream builds them from the log. A log: put its files back "
            "from a backup, or read the topic into a new lake. See docs/guides/operating.md, 'Foreign hands'.",
        )


def _vectors_refused(uri: str) -> TerminalError:
    """The error for a table with deletion vectors, or that may get some at any time."""
    off = f"ALTER TABLE {{}} SET TBLPROPERTIES ('{ENABLE_VECTORS}' = 'false')"
    return _refusal(uri, VECTORS, f"{off}; REORG TABLE {{}} APPLY (PURGE)")


def _refusal(uri: str, feature: str, commands: str) -> TerminalError:
    return TerminalError(
        f"The table at {uri} uses {feature}, which Headrace does not write.",
        detail="Nothing was changed.",
        hint=f"Let Spark run: {commands.replace('{}', f'delta.`{uri}`')}. Do not drop the feature: that leaves another one.",
    )
