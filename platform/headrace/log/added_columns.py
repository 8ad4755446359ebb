"""Columns that a topic's log has to gain with values in its older rows, before anything is appended to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.lake import LakeTable


def added_columns_due(log: LakeTable, topic: Topic) -> list[str]:
    """The columns in `added` that a log with rows does not have."""
    if not topic.added or not log.exists:
        return []
    has = {field.name for field in log.schema.field("value").type}
    due = [name for name in topic.added if name not in has]
    return due if due and log.snapshot().rows else []


def require_added_columns(log: LakeTable, topic: Topic) -> None:
    """Refuse to append to a log that would gain these columns with nulls.

    Raises: TerminalError
    """
    if due := added_columns_due(log, topic):
        raise TerminalError(
            f"Topic '{topic.name}': its log has no column {', '.join(due)}, and older records are to have values there.",
            hint="Run `headrace apply`: it writes the log again. Or leave the column out of added: it is then null there.",
        )
