"""A commit of an Iceberg table that adds and removes data files and keeps its list of manifests short.

pyiceberg merges manifests only where nothing is removed, and a table of current rows loses files in each commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MANIFEST_BYTES, MANIFESTS_MAX = 8 << 20, 20  # beyond so many, manifests below that size become one


def replacement(work: Any, io: Any, properties: Mapping[str, str], *, removes: bool) -> Any:
    """Begin such a commit in a transaction; it takes files until it is committed. In: removes  whether any file leaves."""
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles

    class Replacement(_OverwriteFiles):  # type: ignore[misc]
        """Manifests that name no file any more are left out."""

        def _process_manifests(self, manifests: list[Any]) -> list[Any]:
            named = [
                each
                for each in manifests
                if each.has_added_files()
                or each.has_existing_files()
                or each.added_snapshot_id == self.snapshot_id
            ]
            return list(
                _ManifestMergeManager(MANIFEST_BYTES, MANIFESTS_MAX, True, self).merge_manifests(named)
            )

    # A reader that follows a table commit by commit takes those that only append.
    operation = Operation.OVERWRITE if removes else Operation.APPEND
    return Replacement(operation, work, io, snapshot_properties=dict(properties))
