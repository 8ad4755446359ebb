"""Record what Spark makes of random expressions: `python -m tests.expressions.record` writes the fixture anew."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, spark_conf
from tests.expressions.boundary_rows import boundary_rows
from tests.expressions.generated import Expressions
from tests.expressions.generated_wide import fixed, texts
from tests.expressions.spark_answers import answers

FOLDER = Path(__file__).parent
NUMBER, DEPTH, SEED = 1_500, 3, 20261128


def recorded() -> Path:
    """The fixture of the Spark that is installed."""
    return FOLDER / f"spark-{pyspark.__version__}.parquet"


def _is_whole(column: pa.Array) -> bool:
    """False for an array of an array of nulls, which Spark hands over with too few elements."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def main() -> None:
    """Write the fixture: one column for each expression, named by its text."""
    spark = build_session(spark_conf(spark_jars(), master="local[1]"), "headrace-expressions")
    rows = boundary_rows()
    asked = [*fixed(), *texts(random.Random(SEED), NUMBER, DEPTH, Expressions)]
    columns = {text: column for text, column in answers(spark, rows, asked) if _is_whole(column)}
    pq.write_table(pa.table(columns), recorded(), compression="zstd", compression_level=19)
    print(f"{len(columns)} of {len(asked)} expressions are recorded in {recorded().name}")


if __name__ == "__main__":
    main()
