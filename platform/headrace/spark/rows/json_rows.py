"""Rows as JSON texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def as_json(names: Iterable[str]) -> Column:
    """The columns as one JSON object; nulls are written, timestamps to the microsecond."""
    return F.to_json(F.struct(*(F.col(quote(name)) for name in names)), JSON)
