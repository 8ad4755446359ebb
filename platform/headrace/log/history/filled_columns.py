"""Columns that a log has gained with values in its older records: which, and through which commit.

Law: a commit that comes back into a log has the rows that it would have, had it never been away. So if the log has gained
columns with values since, its rows hold these values, whatever its records bring (see `lifecycle.log_repair.fill_columns`).

A remark on the column of values says so. It comes with the commit that brings the rows: a crash leaves both, or none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.log.history.writings import COLUMN, new_writing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.lake import LakeTable

NAME = "headrace.added"  # of the remark
Added = dict[str, dict[str, Any]]  # of each column its `value`, as a text that is cast, and `through_ms`


def added_of(log: LakeTable) -> Added:
    """The columns that a log has gained with values, as its table says."""
    remark = log.metadata.remarks(COLUMN).get(NAME)
    known: Added = json.loads(remark) if remark else {}
    return known


def added_with(
    log: LakeTable,
    renamed: Mapping[str, str],
    added: Mapping[str, str],
    through_ms: int,
    described: Collection[str],
) -> Added:
    """The same once a log is written again under other columns.

    In: log        as it is before
        renamed    new names of columns to former ones
        added      values of new columns; those that the log has already are none
        described  the columns that it has then: one that goes may come again without these values
    """
    fields = log.schema.field(COLUMN).type
    has, names = {field.name for field in fields}, {former: name for name, former in renamed.items()}
    known = {names.get(name, name): entry for name, entry in added_of(log).items()}
    new = [name for name in added if name not in has and renamed.get(name) not in has]
    known |= {name: {"value": added[name], "through_ms": through_ms} for name in new}
    return {name: entry for name, entry in known.items() if name in described}


def noting(added: Added) -> dict[str, dict[str, str]]:
    """The remarks of a log that is written again, and has gained these columns, for the commit that brings its rows."""
    return {COLUMN: {NAME: json.dumps(added), **new_writing()}}


def values_at(log: LakeTable, at_ms: int) -> dict[str, str]:
    """The values that columns have in the rows of a commit, as texts that are cast."""
    has = {field.name for field in log.schema.field(COLUMN).type}
    return {
        name: entry["value"]
        for name, entry in added_of(log).items()
        if name in has and at_ms <= entry["through_ms"]
    }
