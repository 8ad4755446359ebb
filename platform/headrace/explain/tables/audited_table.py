"""`audit`: a table that another system made, held against what the log says by a node's description.

Law: the node's rows are those of its table, which follow from the log alone. Rows are compared by the columns that both
have. A window that is not final yet is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.windows import END, START
from headrace.description.wording import listed
from headrace.errors import DescriptionError, TerminalError
from headrace.explain.row_cause import Cause, ExplainedNode
from headrace.explain.scope_size import require_small
from headrace.explain.tables.compared_rows import compare_rows
from headrace.explain.tables.foreign_table import read_foreign
from headrace.fold.keys import key_of_row
from headrace.fold.values.columns import int64
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.rows.stored_rows import StoredRows, stored_rows
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

WRONG, MISSING, SURPLUS = "wrong", "missing", "surplus"
Values = Mapping[str, Any]


@dataclass(frozen=True)
class AuditedRow:
    """A row that is not as the log says.

    kind    "wrong": it has other values; "missing": the table lacks it; "surplus": the log gives no such row
    log     the row by the log; table: the row of the table. None: there is none
    causes  the records behind the row by the log, and those of its key that did not count
    """

    kind: str
    log: Values | None
    table: Values | None
    causes: Sequence[Cause] = ()


@dataclass(frozen=True)
class Audit:
    """The verdict on a table.

    rows      of the node's table that are judged; equal: those that the table has, too
    columns   by which rows are compared; unknown: columns of the node that the table lacks
    not_final rows of the table whose windows are not final in the log yet
    examples  of rows that are not as the log says
    """

    node: str
    against: str
    rows: int
    equal: int
    wrong: int
    missing: int
    surplus: int
    not_final: int
    columns: Sequence[str]
    unknown: Sequence[str]
    examples: Sequence[AuditedRow] = ()

    @property
    def is_equal(self) -> bool:
        """True if the table has the rows that the log says, and no other."""
        return not self.wrong + self.missing + self.surplus


def audit_table(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    against: str,
    *,
    columns: Mapping[str, str] | None = None,
    large: bool = False,
) -> Audit:
    """Compare a node's rows with those of another table.

    In:     against  URI of a Delta table or of a folder of Parquet files, or kafka:TOPIC
            columns  for a column of the node the name that the table has for it, with dots into structs
            large    whether to read logs and tables of any size
    Raises: DescriptionError when the table lacks a column of the node's key; TerminalError when it cannot be read, or the
            node has not run
    """
    node = resolve_references(lake, node)
    require_small(lake, node, large=large, hint="the tables are read all the same.")
    stored = stored_rows(lake, node, bound(spark, node))
    own = stored.judged
    theirs = _as_ours(node, read_foreign(against, columns or {}, node), own.schema)
    shared = [name for name in node.columns if name in theirs.column_names]
    if lacking := [name for name in node.key if name not in shared]:
        raise DescriptionError(
            f"The table {against} has no column '{lacking[0]}', which tells rows of '{node.required_name}' apart.",
            detail=f"Its columns are {listed(theirs.column_names)}.",
            hint=f"Say which one it is: --column {lacking[0]}=…",
        )
    theirs, not_final = _judged(node, stored, theirs)
    own = own.select(shared)
    found = compare_rows(own, theirs.select(shared), node.key)
    examples = [
        _explained(spark, lake, node, each.before, each.after, large=large) for each in found.differing
    ]
    return Audit(
        node.required_name,
        against,
        own.num_rows,
        own.num_rows - found.removed - found.changed,
        found.changed,
        found.removed,
        found.added,
        not_final,
        shared,
        [name for name in node.columns if name not in shared],
        examples,
    )


def _as_ours(node: Node, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns that the node has, with its types."""
    columns = {}
    for name in node.columns:
        if name not in rows.column_names:
            continue
        wanted = schema.field(name).type
        try:
            columns[name] = _cast(rows[name], wanted)
        except pa.ArrowException as error:
            raise TerminalError(
                f"Column '{name}' of the table does not fit node '{node.required_name}'.",
                detail=str(error),
                hint=f"The node's column is {wanted}, the table's {rows[name].type}.",
            ) from error
    return pa.table(columns)


def _cast(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Times without a zone are UTC; numbers that are times are milliseconds."""
    if pa.types.is_timestamp(wanted) and pa.types.is_integer(values.type):
        return values.cast(pa.timestamp("ms", "UTC")).cast(wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type) and values.type.tz is None:
        return values.cast(pa.timestamp("us")).cast(wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type):
        return values.cast(wanted, safe=False)
    return values.cast(wanted)


def _judged(node: Node, stored: StoredRows, theirs: pa.Table) -> tuple[pa.Table, int]:
    """The rows whose windows are final in the log, and how many others there are."""
    names = [name for name in (START, END) if name in theirs.column_names]
    lowest_ms = stored.progress.lowest_ms
    if not node.has_windows or not names or not node.has_days:
        return theirs, 0
    known = pc.is_in(key_of_row(theirs, [*node.key])[0], key_of_row(stored.results, [*node.key])[0]).to_numpy(
        zero_copy_only=False
    )
    end_ms = int64(theirs[names[-1]].cast(pa.int64())) // 1_000
    clock = operator_for(node).clock
    wait_ms = node.longest_wait_ms if names[-1] == START else clock.later_ms if clock else 0
    final = np.full(theirs.num_rows, False) if lowest_ms is None else end_ms + wait_ms <= lowest_ms
    judged = known | final
    return theirs.filter(pa.array(judged)), int((~judged).sum())


def _explained(
    spark: SparkSession, lake: Lake, node: Node, log: Values | None, table: Values | None, *, large: bool
) -> AuditedRow:
    kind = WRONG if log and table else MISSING if log else SURPLUS
    row = log or table or {}
    try:
        causes = ExplainedNode(spark, lake, node, large=large).causes({n: row[n] for n in node.key}, 1, None)
    except TerminalError:  # the log gives no such row
        causes = []
    return AuditedRow(kind, log, table, causes)
