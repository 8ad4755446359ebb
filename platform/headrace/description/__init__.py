"""Immutable descriptions of topics, streams and nodes, validated when they are built; nothing here runs."""

from headrace.description.aggregates import Aggregate
from headrace.description.batch_processor import BatchContext, BatchProcessor, BatchStore
from headrace.description.batches import Batches
from headrace.description.distinct import Distinct
from headrace.description.durations import Duration, duration_ms, format_duration
from headrace.description.expressions import parse_expression
from headrace.description.flat_map import FlatMap
from headrace.description.flat_mapped import FlatMapped
from headrace.description.global_table import GlobalTable
from headrace.description.grouped import GroupedStream, WindowedStream
from headrace.description.join import Join
from headrace.description.lookup import Lookup
from headrace.description.merged import Merged
from headrace.description.named_stream import NamedStream
from headrace.description.node import Node
from headrace.description.node_output import NodeOutput, output_name, written_by
from headrace.description.node_reference import (
    NodeReference,
    OtherNodeError,
    is_of_kafka,
    output_of,
    references_of,
    with_references,
)
from headrace.description.processed import Processed
from headrace.description.processor import Context, KeyValueStore, Processor, ProcessorError, Record, Timer
from headrace.description.refined import Refined
from headrace.description.regrouped import TableAggregate
from headrace.description.relation import Relation
from headrace.description.replay import ReplayGuard
from headrace.description.running import RunningAggregate
from headrace.description.schema import (
    Column,
    is_decimal,
    is_floating,
    is_integral,
    is_numeric,
    parse_ddl,
    quote,
    to_ddl,
)
from headrace.description.stores import Store
from headrace.description.stream import Branch, Select, Step, Stream, Transform, Where, WithColumn
from headrace.description.stream_join import StreamJoin
from headrace.description.suppressed import Suppressed
from headrace.description.suppression import Bound
from headrace.description.table import Table
from headrace.description.table_changes import TableChanges
from headrace.description.time_stores import SessionStore, WindowStore
from headrace.description.topic import Topic
from headrace.description.topology import describe
from headrace.description.unnamed import is_unnamed, refuse_clashes, with_unnamed
from headrace.description.windowed import WindowedAggregate
from headrace.description.windows import CalendarWindows, SessionWindows, SlidingWindows, TimeWindows

__all__ = [
    "Aggregate", "BatchContext", "BatchProcessor", "BatchStore", "Batches", "Bound", "Branch", "CalendarWindows",
    "Column", "Context", "Distinct", "Duration", "FlatMap", "FlatMapped", "GlobalTable", "GroupedStream", "Join",
    "KeyValueStore", "Lookup", "Merged", "NamedStream", "Node", "NodeOutput", "NodeReference", "OtherNodeError", "Processed",
    "Processor", "ProcessorError", "Record", "Refined", "Relation", "ReplayGuard", "RunningAggregate", "Select",
    "SessionStore", "SessionWindows", "SlidingWindows", "Step", "Store", "Stream", "StreamJoin", "Suppressed", "Table",
    "TableAggregate", "TableChanges", "TimeWindows", "Timer", "Topic", "Transform", "Where", "WindowStore",
    "WindowedAggregate", "WindowedStream", "WithColumn", "describe", "duration_ms", "format_duration", "is_decimal",
    "is_floating", "is_integral", "is_numeric", "is_of_kafka", "is_unnamed", "output_name", "output_of", "parse_ddl",
    "parse_expression", "quote", "references_of", "refuse_clashes", "to_ddl", "with_references", "with_unnamed",
    "written_by",
]  # fmt: skip
