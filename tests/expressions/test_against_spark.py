"""Random expressions, evaluated by terms and by Spark."""

from __future__ import annotations

import os
import random
import secrets
from typing import TYPE_CHECKING

import pytest

from tests.expressions.boundary_rows import boundary_rows
from tests.expressions.compared import Difference, compared
from tests.expressions.generated_wide import texts
from tests.expressions.spark_answers import answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NUMBER = int(os.environ.get("HEADRACE_EXPRESSIONS", "200"))
SEED = int(os.environ.get("HEADRACE_SEED", "0")) or secrets.randbelow(1 << 31)


def test_terms_equal_spark_on_random_expressions(spark: SparkSession) -> None:
    print(f"HEADRACE_SEED={SEED} HEADRACE_EXPRESSIONS={NUMBER}")
    rng, differences = random.Random(SEED), list[str]()
    rows = boundary_rows(seed=SEED)
    for text, column in answers(spark, rows, texts(rng, NUMBER, 5)):
        try:
            compared(text, rows, column)
        except Difference as difference:
            differences.append(difference.words)
    assert differences == [], f"HEADRACE_SEED={SEED}"
