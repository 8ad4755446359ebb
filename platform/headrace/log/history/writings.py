"""Which writing a log is of: `headrace apply` may write all of its rows again, under other columns or made anew.

Law: tables are folded from one writing of each log. They may go on with the next one if they read the same there (see
`changing.plan_changes`). Tables that were kept from before it never come back: nobody has judged them by the new rows.

A remark on a column of the log names the writing. It comes with the commit that brings the rows. Each commit of a node's
state says which writings it has read, directly or through other nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace.lake import open_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.lake.paths import Lake

COLUMN = "value"  # of the log, for remarks
NAME = "headrace.writing"
FIRST = ""  # the name of the first writing
WRITINGS = "writings"  # in the record of a commit of a node's state


def new_writing() -> dict[str, str]:
    """The remark of a log that is being written again."""
    return {NAME: uuid4().hex}


def writings_of(lake: Lake, topics: Iterable[str]) -> dict[str, str]:
    """The names of the writings of logs, by topic; empty of a log that was never written again."""
    return {topic: _writing_of(lake, topic) for topic in topics}


def written_again(lake: Lake, record: Mapping[str, Any]) -> list[str]:
    """The topics whose logs were written again since the tables of a node were.

    In: record  of a commit of its state
    """
    read = record.get(WRITINGS, {})
    now = writings_of(lake, read)
    return [topic for topic, name in read.items() if now[topic] != name]


def _writing_of(lake: Lake, topic: str) -> str:
    log = open_table(lake.log(topic))
    return str(log.metadata.remarks(COLUMN).get(NAME, FIRST)) if log.exists else FIRST
