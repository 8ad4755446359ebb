"""The meaning of a stream's columns, for people: the expression that makes one, or what the node before says of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.description.steps import Select, Transform, WithColumn

if TYPE_CHECKING:
    from headrace.description.stream import Branch, Stream

OF_RECORD = "Of the record."
_ALIAS = re.compile(r"(?P<source>.+?)\s+AS\s+`?(?P<name>\w+)`?", re.IGNORECASE | re.DOTALL)


def meaning_of(stream: Stream, name: str) -> str:
    """The meaning of a column, as all branches of a stream have it."""
    meanings = {_in_branch(branch, name) for branch in stream.branches}
    return meanings.pop() if len(meanings) == 1 else OF_RECORD


def _in_branch(branch: Branch, name: str) -> str:
    from headrace.description.node_output import written_by  # nodes are made of streams

    for step in reversed(branch.steps):
        if isinstance(step, Transform):
            return OF_RECORD
        if isinstance(step, WithColumn) and step.name.lower() == name.lower():
            return f"{step.expression}."
        if isinstance(step, Select):
            aliases = filter(None, (_ALIAS.fullmatch(each.strip()) for each in step.expressions))
            source = next((each["source"] for each in aliases if each["name"].lower() == name.lower()), name)
            if not re.fullmatch(r"\w+", source):
                return f"{source}."
            name = source
    writer = written_by(branch.topic)
    known = () if writer is None else writer.result_columns
    return next((column.meaning for column in known if column.name.lower() == name.lower()), OF_RECORD)
