"""The needs of a deployment from outside, tried before anything starts: Kafka, the lake, Spark, registries, databases.

Each part gives findings: what was tried, whether it is as it should be, and if not, what to do. Only the lake is written
to: one small file, which is removed.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from headrace.mirror.catalog import open_catalog
from headrace.preflight.databases import check_databases
from headrace.preflight.finding import Finding, tried
from headrace.preflight.kafka import check_kafka
from headrace.preflight.lake import check_lake
from headrace.preflight.logs import check_logs
from headrace.preflight.registries import check_registries
from headrace.preflight.spark import check_spark
from headrace.preflight.steps import check_steps
from headrace.settings import (
    IcebergSettings,
    KafkaSettings,
    SparkSettings,
    StateSettings,
    StreamSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node

__all__ = ["Finding", "check_configuration"]


def check_configuration(nodes: Sequence[Node], root: str) -> Iterator[Finding]:
    """Try what these nodes need, with the settings of the environment.

    In:     root  URI of the lake
    Raises: TerminalError when a variable has a value that its type does not take
    """
    StreamSettings(), StateSettings()  # a value that is no number is told here, too
    well = True
    for finding in chain(check_lake(root), check_kafka(nodes, KafkaSettings())):
        yield finding
        well &= finding.ok
    if well:
        yield from check_logs(nodes, root, KafkaSettings())
    yield from check_registries(nodes)
    found = [*check_spark(SparkSettings())]
    yield from found
    if all(finding.ok for finding in found):
        yield from check_steps(nodes, root)
    yield from check_databases(nodes)
    if (settings := IcebergSettings()).uri is not None:
        yield tried("the Iceberg catalog", lambda: _catalog(settings, root))


def _catalog(settings: IcebergSettings, root: str) -> str:
    open_catalog(settings, root)
    return f"answers, and has the namespace '{settings.namespace}'"
