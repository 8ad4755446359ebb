"""The steps that only Spark computes: whether Spark reads them, and the columns that it finds."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from headrace.description import with_unnamed
from headrace.description.topology import steps_by_spark
from headrace.lake.paths import Lake
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import NodeAwaitedError, resolve_references
from headrace.preflight.finding import tried
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, pipeline_session, spark_conf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.preflight.finding import Finding


def check_steps(nodes: Sequence[Node], root: str) -> Iterator[Finding]:
    """Ask a Spark of this process for the types of what only Spark computes. It is not started if there is no such step.

    In: root  URI of the lake: it knows the nodes of other pipelines that are read
    """

    @cache
    def session() -> SparkSession:
        conf = spark_conf(spark_jars(), master="local[1]", lake=root)
        return pipeline_session(build_session(conf, "headrace config check"))

    for node in with_unnamed(nodes):
        if steps := steps_by_spark(node):
            name = f"steps of '{node.required_name}' that only Spark computes"
            yield tried(name, partial(_read, session, Lake(root), node, steps))


def _read(session: Callable[[], SparkSession], lake: Lake, node: Node, steps: Sequence[str]) -> str:
    try:
        bound(session(), resolve_references(lake, node))
    except NodeAwaitedError as error:
        return f"not asked: {error.message}"
    return "; ".join(steps)
