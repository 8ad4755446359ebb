"""The table of a topic's log, and columns that it has to gain with values in older rows, before anything is appended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import lake
from headrace.errors import TerminalError
from headrace.lake import kinds
from headrace.log.history.raw_records import RAW_COLUMN
from headrace.sequence.log_columns import SKIPPING

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.description import Topic
    from headrace.lake import LakeTable


def log_table(path: str, topic: Topic, schema: pa.Schema) -> LakeTable:
    """Open a topic's log, and make it if there is none. New columns of the value are null in older rows.

    Raises: TerminalError when its columns are others, or older rows are to have values in new ones
    """
    require_added_columns(lake.open_table(path), topic)
    return lake.create(path, schema, kinds.log(SKIPPING), grows="value", adds=(RAW_COLUMN,))


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
