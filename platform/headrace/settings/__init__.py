"""Settings from the environment, each in one typed class. docs/settings.md lists all of them.

    kafka      HEADRACE_KAFKA_…    how logs, sinks and administration reach Kafka
    spark      HEADRACE_SPARK_…    the master, and what driver and executors get
    state      HEADRACE_STATE_…    how much of the state each process keeps near
    streams    HEADRACE_STREAM_…   how a stream run behaves, and exceptions for single streams
    iceberg    HEADRACE_ICEBERG_…  the catalog in which tables are mirrored
    pipeline   HEADRACE_…          the lake, the pipeline's module, the endpoint of metrics

How storage is reached stands in the variables of its own clients (see `headrace.lake.storage`).
"""

from headrace.settings.iceberg import IcebergSettings
from headrace.settings.kafka import KafkaSettings
from headrace.settings.pipeline import Settings, load_pipeline
from headrace.settings.spark import SparkSettings
from headrace.settings.state import StateSettings
from headrace.settings.streams import StreamSettings

__all__ = [
    "IcebergSettings",
    "KafkaSettings",
    "Settings",
    "SparkSettings",
    "StateSettings",
    "StreamSettings",
    "load_pipeline",
]
