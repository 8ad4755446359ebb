"""Fewer and larger files, by delta-rs' own command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.lake.table import no_hooks, properties

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from headrace.lake.writer import TableWriter

FILE_BYTES = 128 << 20  # smaller files are put together until they are about so large


def compact_small(writer: TableWriter, record: Mapping[str, Any]) -> int:
    """Put small files together; the rows stay the same. Commits nothing when there is nothing to do.

    Out: the version afterwards
    """

    def compact(whole: Mapping[str, Any], table: DeltaTable) -> None:
        table.optimize.compact(
            target_size=FILE_BYTES, commit_properties=properties(whole), post_commithook_properties=no_hooks()
        )

    return writer.commit_by(compact, record)
