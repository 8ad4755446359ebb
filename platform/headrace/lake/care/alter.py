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
    set_properties(writer, {"delta.appendOnly": "false", PAST: uuid4().hex}, record)
    try:
        yield
    finally:
        set_properties(writer, {"delta.appendOnly": "true", PAST: uuid4().hex}, record)


def name_past(writer: TableWriter, record: Mapping[str, Any]) -> None:
    """Give the past of a log another name: rows come into it, or have gone, before its end."""
    set_properties(writer, {PAST: uuid4().hex}, record)


def past_of(table: LakeTable) -> str:
    """Names the rows of a log that was only appended to since: it is another name once older rows were changed, or come
    back, or the table was made anew. Empty: there is no table.
    """
    if not table.exists:
        return ""
    metadata = table.metadata
    return f"{metadata.id} {metadata.configuration.get(PAST, '')}".strip()


def set_properties(writer: TableWriter, changed: Mapping[str, str], record: Mapping[str, Any]) -> int | None:
    """Set properties of a table in one commit; the version that has them."""

    def alter(whole: Mapping[str, Any], table: DeltaTable) -> None:
        table.alter.set_table_properties(
            {**changed},
            raise_if_not_exists=all(name.startswith("delta.") for name in changed),  # others are ours
            commit_properties=properties(whole),
            post_commithook_properties=no_hooks(),
        )

    return writer.commit_by(alter, record)
