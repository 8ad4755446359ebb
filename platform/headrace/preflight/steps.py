"""The steps that only Spark computes: whether Spark reads them, and the columns that it finds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.changing.compare_rules import steps_by_spark
from headrace.description import with_unnamed
from headrace.lake.paths import Lake
from headrace.nodes.bound_operator import bound
from headrace.nodes.references import resolve_all_references
from headrace.preflight.finding import tried
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, pipeline_session, spark_conf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.preflight.finding import Finding


def check_steps(nodes: Sequence[Node], root: str) -> Iterator[Finding]:
    """Ask a Spark of this process for the types of what only Spark computes. It is not started if there is no such step.

    In: root  URI of the lake: it knows the nodes of other pipelines that are read
    """
    steps = {node.required_name: steps_by_spark(node.rules()) for node in with_unnamed(nodes)}
    concerned = [node for node in with_unnamed(nodes) if steps[node.required_name]]
    if not concerned:
        return
    conf = spark_conf(spark_jars(), master="local[1]", lake=root)
    spark = pipeline_session(build_session(conf, "headrace config check"))
    for node in resolve_all_references(Lake(root), concerned):
        name = f"steps of '{node.required_name}' that only Spark computes"
        yield tried(name, partial(_read, spark, node, steps[node.required_name]))


def _read(spark: SparkSession, node: Node, steps: Sequence[str]) -> str:
    bound(spark, node)
    return "; ".join(steps)
