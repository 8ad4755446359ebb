"""Headrace: streaming aggregations as Dagster assets on Spark and Delta, fed from Kafka.

The law: every operator's result is a function of the log alone. How the log was cut into micro-batches,
when the process ran, how often it crashed, and whether it ran as a stream or as a batch does not show in
the result.
"""

from importlib.metadata import version
from time import time
from typing import TYPE_CHECKING

from headrace.description import (
    BatchContext,
    BatchProcessor,
    BatchStore,
    CalendarWindows,
    Context,
    KeyValueStore,
    Processor,
    ProcessorError,
    Record,
    ReplayGuard,
    SessionStore,
    SessionWindows,
    SlidingWindows,
    Timer,
    TimeWindows,
    Topic,
    WindowStore,
    describe,
)
from headrace.description.aggregates import (
    approx_count_distinct,
    avg,
    collect,
    count,
    count_distinct,
    first,
    last,
    max,
    max_by,
    min,
    min_by,
    quantiles,
    stddev,
    sum,
    top,
    variance,
)
from headrace.description.formats import Avro, Bytes, Csv, Debezium, Json, JsonSchema, Number, Protobuf, Text
from headrace.description.global_table import global_table
from headrace.description.node_reference import node
from headrace.description.own_aggregate import Aggregate
from headrace.description.previous_values import increase
from headrace.description.processor import ReadOnlyStore
from headrace.description.processor_function import processor
from headrace.description.quota import Quota
from headrace.description.seed import from_files, from_table
from headrace.description.several_topics import topics
from headrace.description.source_chain import source_chain
from headrace.description.stores import key_value_store, session_store, value_store, window_store
from headrace.description.suppression import (
    UntilTimeLimit,
    UntilWindowCloses,
    until_time_limit,
    until_window_closes,
)
from headrace.description.windows import calendar, hopping, session, sliding, tumbling
from headrace.errors import DescriptionError, HeadraceError, TerminalError, TransientError
from headrace.observe.previews.preview import Preview, preview
from headrace.sinks import CorrectableSink, DeliveredRow, Delivery, KafkaSink, PostgresSink, Sink, each

if TYPE_CHECKING:
    from headrace.local import local
else:
    from headrace import local  # the package, which can be called: see there

__version__ = version("headrace")
__loaded_at__ = time()  # seconds since 1970: see `headrace.writing.code_digest`

__all__ = [
    "Aggregate", "Avro", "BatchContext", "BatchProcessor", "BatchStore", "Bytes", "CalendarWindows", "Context",
    "CorrectableSink", "Csv", "Debezium", "DeliveredRow", "Delivery", "DescriptionError", "HeadraceError", "Json",
    "JsonSchema", "KafkaSink", "KeyValueStore", "Number", "PostgresSink", "Preview", "Processor", "ProcessorError",
    "Protobuf", "Quota", "ReadOnlyStore", "Record", "ReplayGuard", "SessionStore", "SessionWindows", "Sink",
    "SlidingWindows", "TerminalError", "Text", "TimeWindows", "Timer", "Topic", "TransientError", "UntilTimeLimit",
    "UntilWindowCloses", "WindowStore", "approx_count_distinct", "avg", "calendar", "collect", "count", "count_distinct",
    "describe", "each", "first", "from_files", "from_table", "global_table", "hopping", "increase", "key_value_store",
    "last", "local", "max", "max_by", "min", "min_by", "node", "preview", "processor", "quantiles", "session",
    "session_store", "sliding", "source_chain", "stddev", "sum", "top", "topics", "tumbling", "until_time_limit",
    "until_window_closes", "value_store", "variance", "window_store",
]  # fmt: skip
