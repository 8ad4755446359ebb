"""Folds by Arrow: Spark decides each row, one task folds the rows that are kept, a column at a time, and writes the tables.

What Spark computes with expressions (steps, fates, panes) it computes here, too. Only what comes behind it, groups of rows
that are summed and the node's files, is Arrow's: a million rows are grouped and written in half a second by one core, where
Spark copies, hashes and shuffles each row several times.

Law: the tables are those to which the operator's `fold` leads; only their files differ. What is not certain to be the same
     is not done here: such nodes, and increments too large for one task, are Spark's (see `headrace.runtime.columnar`).
"""

from headrace.operators.columnar.fold import (
    Columnar,
    ColumnarFold,
    CompletedFold,
    ComputedFold,
    Found,
    HeldFiles,
    Pending,
    Sql,
    TableFiles,
)

__all__ = [
    "Columnar",
    "ColumnarFold",
    "CompletedFold",
    "ComputedFold",
    "Found",
    "HeldFiles",
    "Pending",
    "Sql",
    "TableFiles",
]
