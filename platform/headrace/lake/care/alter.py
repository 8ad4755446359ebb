"""Change properties of a table, behind the fence as every commit; and tell a table's past from another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace.lake.commits.commit_file import no_hooks, properties

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from headrace.lake.commits.writer import TableWriter
    from headrace.lake.table import LakeTable

PAST = "headrace.past"  # the property that names a table's past


@contextmanager
def rewritable(writer: TableWriter, record: Mapping[str, Any]) -> Iterator[None]:
    """Let the commits made inside change rows of a table that else is only appended to; its past is another one then.

    It is named before and after: what was read in between is of neither.
    """
    set_property(writer, "delta.appendOnly", "false", record, {PAST: uuid4().hex})
    try:
        yield
    finally:
        set_property(writer, "delta.appendOnly", "true", record, {PAST: uuid4().hex})


def name_past(writer: TableWriter, record: Mapping[str, Any]) -> None:
    """Give the past of a log another name: rows come into it, or have gone, before its end."""
    set_property(writer, PAST, uuid4().hex, record)


def past_of(table: LakeTable) -> str:
    """Names the rows of a log that was only appended to since: it is another name once older rows were changed, or come
    back, or the table was made anew. Empty: there is no table.
    """
    if not table.exists:
        return ""
    metadata = table.with_handle(lambda handle: handle.metadata())
    return f"{metadata.id} {metadata.configuration.get(PAST, '')}".strip()


def set_property(
    writer: TableWriter,
    name: str,
    value: str,
    record: Mapping[str, Any],
    more: Mapping[str, str] | None = None,
) -> int | None:
    """Set a property of a table; the version that has it. In: more  others of ours."""

    def alter(whole: Mapping[str, Any], table: DeltaTable) -> None:
        table.alter.set_table_properties(
            {name: value, **(more or {})},
            raise_if_not_exists=name.startswith("delta.") and not more,  # others are ours
            commit_properties=properties(whole),
            post_commithook_properties=no_hooks(),
        )

    return writer.commit_by(alter, record)
