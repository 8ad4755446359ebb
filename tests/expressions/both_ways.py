"""Every expression that the tests describe, and every chain of steps that they evaluate, evaluated by Spark too.

`HEADRACE_BOTH_WAYS=folder pytest …` writes into a folder the expressions, and the chains with some of their rows. `python -m
tests.expressions.both_ways folder` evaluates them by Spark, compares types, bits and nulls, and exits with 1 if something
differs. Expressions have made rows (see `tests.expressions.described`), as those of tests that only describe have none.
"""

from __future__ import annotations

import atexit
import hashlib
import pickle
import sys
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

import headrace as hr
from headrace.description import Where
from headrace.engine.steps.arrow_steps import ArrowSteps
from headrace.expressions import SparkNeededError
from headrace.fold.tables.decide_records import PASSES
from headrace.sequence.operator_rows import REFUSED
from headrace.spark.frames import arrow_frame
from headrace.spark.jars import spark_jars
from headrace.spark.one_task import arrow_schema
from headrace.spark.row_steps import applied, expression_of
from headrace.spark.session import build_session, pipeline_session, spark_conf
from tests.expressions.compared import Difference, differing_row
from tests.expressions.described import Described, recorded
from tests.expressions.described import compare as compare_described

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

TOPIC = hr.Topic("any", key="k STRING", value="v STRING")  # chains do not read headers
CALLS, ROWS = 6, 300  # that are kept of each chain, in each process
DESCRIBED = ".described"


def write_both(folder: Path) -> None:
    """Let this process write the expressions that it describes, at its end, and the chains that it evaluates."""
    folder.mkdir(parents=True, exist_ok=True)
    described = recorded()
    known = described.__enter__()

    def write() -> None:
        described.__exit__(None, None, None)  # held until here: it stops to record when nothing holds it
        document = pickle.dumps(sorted(known))
        (folder / f"{hashlib.sha256(document).hexdigest()}{DESCRIBED}").write_bytes(document)

    atexit.register(write)
    _write_chains(folder)


def _write_chains(folder: Path) -> None:
    evaluate, calls = ArrowSteps.applied, Counter[bytes]()

    def written(steps: ArrowSteps, rows: pa.Table) -> pa.Table:
        chain = pickle.dumps(steps)
        calls[chain] += 1
        if rows.num_rows and calls[chain] <= CALLS:
            document = pickle.dumps((chain, rows.slice(0, ROWS)))
            (folder / hashlib.sha256(document).hexdigest()).write_bytes(document)
        return evaluate(steps, rows)

    ArrowSteps.applied = written  # type: ignore[method-assign, assignment]


def by_spark(spark: SparkSession, steps: ArrowSteps, rows: pa.Table) -> pa.Table:
    """The same rows after the same steps, as Spark computes them."""
    frame = arrow_frame(spark, rows).coalesce(1)
    if any(isinstance(step, Where) for step in steps.steps):
        frame = frame.withColumn(REFUSED, F.lit(False))
    for step in steps.steps:
        frame = applied(frame, step, TOPIC)
    if steps.conditions:
        passes = (F.coalesce(expression_of(condition), F.lit(False)) for condition in steps.conditions)
        frame = frame.withColumn(PASSES, reduce(lambda one, other: one & other, passes))
    made = frame.toArrow()
    return made.cast(arrow_schema(frame.schema)) if made.num_rows else made


def compare(spark: SparkSession, steps: ArrowSteps, rows: pa.Table) -> int:
    """How many rows were compared. Raises: Difference, naming the chain, the column and the row."""
    try:
        ours = steps.applied(rows)
    except SparkNeededError:
        return 0
    theirs = by_spark(spark, steps, rows)
    for name in theirs.column_names:
        if name in ours.column_names and (words := differing_row(ours[name], theirs[name])):
            raise Difference(f"{steps.steps} {steps.conditions}: {name}: {words}")
    return int(rows.num_rows)


def main(folders: Sequence[str]) -> int:
    """See the module. In: folders of processes, or of several runs."""
    spark = pipeline_session(build_session(spark_conf(spark_jars())))
    chains, rows, different = set[bytes](), 0, list[str]()
    described = set[Described]()
    for path in sorted(each for folder in folders for each in Path(folder).iterdir()):
        if path.suffix == DESCRIBED:
            described |= {*pickle.loads(path.read_bytes())}
            continue
        chain, table = pickle.loads(path.read_bytes())  # written by this module
        chains.add(chain)
        try:
            rows += compare(spark, pickle.loads(chain), table)
        except Difference as difference:
            different.append(difference.words)
    texts = {sql for chain in chains for step in pickle.loads(chain).steps for sql in step.texts}
    print(f"{len(chains):,} chains with {len(texts):,} expressions, {rows:,} rows: {len(different):,} differ")
    outcomes = compare_described(spark, described)
    print(f"{len(described):,} expressions over columns: {dict(outcomes.counts)}")
    different += outcomes.differences
    print(*different, sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
