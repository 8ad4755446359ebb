"""Partials and results of some aggregates, taken from those of others that have the same rules.

Law (L40): an aggregate folds its own columns alone, and the group, the window and the place of a partial do not depend on
which aggregates there are. So the partials of some aggregates are columns of the partials of more, under other names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from headrace.fold.aggregates.table import Aggregates

Rules = Sequence[tuple[str, Any]]  # of aggregates, by name


def sources_of(before: Rules, after: Rules) -> dict[str, str] | None:
    """For each aggregate the former one with the same rules, by preference the one of the same name; None: one has none."""
    known, found = dict(before), dict[str, str]()
    for name, rules in after:
        same = [former for former, of in before if of == rules]
        if not same:
            return None
        found[name] = name if known.get(name) == rules else same[0]
    return found


def columns_from(aggregates: Aggregates, sources: Mapping[str, str]) -> dict[str, str]:
    """For each partial column, and each column of results, the former name. In: sources  as `sources_of` gives them."""
    found = dict(sources)
    for name, kind in aggregates.kinds.items():
        found |= {f"__{name}_{suffix}": f"__{sources[name]}_{suffix}" for suffix in kind.fields}
    return found


def project(rows: pa.Table, schema: pa.Schema, columns: Mapping[str, str]) -> pa.Table:
    """Rows with the columns of a schema. In: columns  the former names of those that had another one."""
    picked = [rows[columns.get(field.name, field.name)].cast(field.type) for field in schema]
    return pa.table(picked, schema=schema)
