"""What a sink should hold of some identities: nulls are values like others, and no two rows have one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.description import quote
from headrace.spark.frames import local_frame
from headrace.writing.delivery.right_rows import right_rows_as_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ODD = "a`.b"


def test_an_identity_may_be_null_and_each_row_of_a_correction_has_an_ordinal_of_its_own(
    spark: SparkSession,
) -> None:
    node = hr.Topic("t", key="k STRING", value=f"{quote(ODD)} STRING").group_by(ODD).aggregate(n=hr.count())
    there, gone = [("x", 1), (None, 2), *((f"y{n}", 3) for n in range(600))], [("z", 0), ("zz", 0)]
    schema = f"{quote(ODD)} STRING, n BIGINT"
    current, touched = (local_frame(spark, rows, schema) for rows in (there, there[:2] + gone))
    found = right_rows_as_of(node.named("x"), current, touched, 7).collect()
    assert {row[ODD]: row["n"] for row in found if not row["__deleted"]} == dict(there)
    assert {row[ODD] for row in found if row["__deleted"]} == {"z", "zz"}
    assert {row["__sequence"] for row in found} == {7}
    assert len({row["__ordinal"] for row in found}) == len(found) == 604
    assert all(row["__ordinal"] < 0 for row in found), "ranks of the commit's own rows begin at 0"
