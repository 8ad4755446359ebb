"""Opens a table: its newest version, as Delta's log tells it from a checkpoint or from the first commit on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.lake import small_files
from headrace.lake.commits.checkpoint import COMMIT, LOG
from headrace.lake.commits.commit_file import read_commit
from headrace.lake.commits.features import is_plain, may_have_vectors, require_readable
from headrace.lake.commits.metadata import TableMetadata, metadata_of
from headrace.lake.commits.snapshot import Snapshot, change, file_of, listed
from headrace.lake.storage import is_local

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

REPLAYED_MAX = 100  # commits; delta-rs reads more of them sooner


def replayed(uri: str) -> Snapshot | None:
    """The newest version of a table on a local disk whose few commits are all there.

    Out: None: it has a checkpoint, many commits or a feature that is not plain (see `features.is_plain`)
    """
    names = small_files.names(f"{uri}/{LOG}") if is_local(uri) else []
    versions = [int(name[:20]) for name in names if COMMIT.fullmatch(name)]
    has_checkpoint = any("checkpoint" in name for name in names)
    if not versions or has_checkpoint or versions != [*range(len(versions))] or len(versions) > REPLAYED_MAX:
        return None
    added: dict[str, Mapping[str, Any]] = {}
    metadata = TableMetadata()
    for version in versions:
        commit = read_commit(uri, version)
        if commit is None:  # cleaned away meanwhile
            return None
        change(added, commit, lambda action: action)
        metadata = metadata.after(commit.actions)
    if not is_plain(metadata):
        return None
    files = {name: file_of(action, metadata) for name, action in added.items()}
    return Snapshot(versions[-1], files, metadata)


def opened(uri: str, handle: DeltaTable) -> Snapshot:
    """The version that delta-rs has opened. Raises: TerminalError if its rows are not all that its files hold."""
    metadata = metadata_of(handle)
    has_vectors = may_have_vectors(metadata) and any(batch.num_rows for batch in handle.deletion_vectors())
    require_readable(uri, metadata, has_vectors=has_vectors)
    files = pa.table(handle.get_add_actions(flatten=True))
    return Snapshot(int(handle.version()), dict(listed(files)), metadata)
