"""The check of the mirror: `iceberg_equals_delta`, at the version that the mirror says it equals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.lake.storage import delta_uri, storage_options
from headrace.mirror.columns import visible

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.mirror.mirrored_table import MirroredTable

ROWS_BYTES = 16 << 20  # of files whose rows are read and compared, too
CLAIM = (
    "The mirror's newest snapshot names the files of one version of the Delta table, with as many rows in each, and both "
    "clients read the same rows from tables of up to 16 MiB."  # see `MirroredTable.has_own_mapping`
)


@dataclass(frozen=True)
class Comparison:
    """The finding of the check. In: version  of the Delta table; None: there is no mirror yet."""

    equal: bool
    sentence: str
    version: int | None = None


def iceberg_equals_delta(table: MirroredTable) -> Comparison:
    """Compare a mirror with the version of the Delta table that it names. Nothing is written."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    mirrored = table.mirrored()
    if mirrored is None:
        return Comparison(False, f"{table.uri} has no snapshot in the catalog yet.")
    iceberg, version = mirrored
    try:
        delta = DeltaTable(delta_uri(table.uri), version=version, storage_options=storage_options(table.uri))
    except (DeltaError, TableNotFoundError, FileNotFoundError) as error:
        text = f"The mirror equals version {version}, which Delta's history has no more: {error}"
        return Comparison(False, text, version)
    differing = _differing_files(table, delta)
    if differing:
        text = f"Of version {version}, the mirror differs in {len(differing)} files, such as {differing[0]}."
        return Comparison(False, text, version)
    sizes = delta.get_add_actions(flatten=True)["size_bytes"].to_pylist()
    if sum(sizes) > ROWS_BYTES or not table.has_own_mapping(iceberg):
        return Comparison(True, f"The mirror names the {len(sizes)} files of version {version}.", version)
    read = iceberg.scan().to_arrow()
    ours = delta.to_pyarrow_table(columns=visible(delta.to_pyarrow_dataset().schema).names)
    missing, more = _differing_rows(ours, read)
    if missing or more:
        text = f"Of version {version}, the mirror lacks {missing} rows and has {more} others."
        return Comparison(False, text, version)
    return Comparison(True, f"The mirror has the {ours.num_rows:,} rows of version {version}.", version)


def _differing_files(table: MirroredTable, delta: Any) -> list[str]:
    """The files that one side names and the other does not, or that differ in size or rows."""
    actions = delta.get_add_actions(flatten=True)
    columns = (actions[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
    ours = {path: (size, rows) for path, size, rows in zip(*columns, strict=True)}
    theirs = {name: (file.file_size_in_bytes, file.record_count) for name, file in table.entries().items()}
    return sorted(
        name
        for name in ours.keys() | theirs.keys()
        if name not in ours
        or name not in theirs
        or ours[name][0] != theirs[name][0]
        or ours[name][1] not in (None, theirs[name][1])
    )


def _differing_rows(ours: pa.Table, theirs: pa.Table) -> tuple[int, int]:
    left, right = (Counter(map(repr, rows.select(ours.column_names).to_pylist())) for rows in (ours, theirs))
    return sum((left - right).values()), sum((right - left).values())
