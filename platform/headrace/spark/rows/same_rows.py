"""Which rows of a frame have an identity that another frame has, too.

Law: two nulls are equal here, as they are where rows are grouped. A join by the names of columns drops rows with nulls.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


def rows_of(rows: DataFrame, identities: DataFrame, identity: Sequence[str]) -> DataFrame:
    """The rows whose identity the other frame has. In: identity  columns of both."""
    return _joined(rows, identities, identity, "left_semi")


def rows_not_of(rows: DataFrame, identities: DataFrame, identity: Sequence[str]) -> DataFrame:
    """The rows whose identity the other frame has not. In: identity  columns of both."""
    return _joined(rows, identities, identity, "left_anti")


def _joined(rows: DataFrame, identities: DataFrame, identity: Sequence[str], how: str) -> DataFrame:
    others = {name: f"__of_{number}" for number, name in enumerate(identity)}
    right = identities.select(*(F.col(quote(name)).alias(other) for name, other in others.items()))
    same = (F.col(quote(name)).eqNullSafe(F.col(other)) for name, other in others.items())
    return rows.join(right, reduce(lambda left, right: left & right, same), how)
