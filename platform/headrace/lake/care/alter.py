"""Change a property of a table, behind the fence as every commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.lake.commits.commit_file import no_hooks, properties

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from headrace.lake.commits.writer import TableWriter


@contextmanager
def rewritable(writer: TableWriter, record: Mapping[str, Any]) -> Iterator[None]:
    """Let the commits made inside change rows of a table that else is only appended to."""
    set_property(writer, "delta.appendOnly", "false", record)
    try:
        yield
    finally:
        set_property(writer, "delta.appendOnly", "true", record)


def set_property(writer: TableWriter, name: str, value: str, record: Mapping[str, Any]) -> int | None:
    """Set one property of a table; the version that has it."""

    def alter(whole: Mapping[str, Any], table: DeltaTable) -> None:
        table.alter.set_table_properties(
            {name: value},
            raise_if_not_exists=name.startswith("delta."),  # others are ours
            commit_properties=properties(whole),
            post_commithook_properties=no_hooks(),
        )

    return writer.commit_by(alter, record)
