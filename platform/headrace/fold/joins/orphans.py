"""Left rows of a join that refer to a right row which does not exist."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import DELETED, KEY

ORPHAN = "__orphan"


def orphans(left: pa.Table, right: pa.Table, key: Sequence[str], on: Sequence[str]) -> pa.Table:
    """Which left rows find no right row.

    In:  left, right  the merged state of a `ForeignKeyJoin`: left rows by what they refer to, right rows by their key
         key, on      columns of the left rows
    Out: key, on, ORPHAN BOOLEAN; one row per left row that refers to a key
    """
    there = right.filter(pc.invert(right[DELETED]))[KEY]
    rows = left.filter(pc.invert(left[DELETED]))
    found = rows.select([*dict.fromkeys((*key, *on))])
    return found.append_column(ORPHAN, pc.invert(pc.is_in(rows[KEY], there.combine_chunks())))
