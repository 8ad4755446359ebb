"""The expressions of examples, guides, benchmarks and Nexmark, evaluated by terms and by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.expressions.compared import EQUAL
from tests.expressions.described import DOCUMENTS, compare, described_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
PATTERNS = (
    "assets/*.py",
    "benchmarks/described/*.py",
    "benchmarks/nexmark/queries.py",
    "tests/domains/test_*.py",
)
NATIVE = 100  # expressions that are evaluated without Spark, at least; Spark computes the others, whose types are compared


def test_each_expression_has_sparks_values(spark: SparkSession) -> None:
    files = [
        file for pattern in PATTERNS for file in sorted(ROOT.glob(pattern)) if file.name != "__init__.py"
    ]
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    described = described_by([*modules, DOCUMENTS])
    outcomes = compare(spark, described)
    print(f"{len(described)} expressions over columns: {dict(outcomes.counts)}")
    assert outcomes.differences == []
    assert outcomes.counts[EQUAL] >= NATIVE
