"""The Kafka sink: what a node emits as a topic that a consumer with a replay guard reads exactly once.

Law: a record's key, value, timestamp, partition and source chain are a function of its row, its node and the number of
the topic's partitions; positions increase along each partition, and a row delivered again has the same position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.description.formats import Avro, Format, JsonSchema, PlainValue, Protobuf
from headrace.description.kafka_settings import KafkaSettings, brokers_of
from headrace.description.quota import Quota, check_quota
from headrace.description.topic import check_topic_name
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError, TerminalError, TransientError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.description import Node
    from headrace.description.sink import Delivery
    from headrace.settings.kafka import KafkaSettings as Connection
    from headrace.sinks.kafka_records import RecordMaker
    from headrace.sinks.producing import Destination
    from headrace.spark.brokers.topic_limits import TopicLimits
    from headrace.spark.kafka import KafkaTopic

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
_NOT_LOST = "Records are sent in order and none is given up while later ones go out."
_OWNED = {
    "acks": "It is always all.",
    "delivery.report.only.error": "Errors alone are reported.",
    "delivery.timeout.ms": _NOT_LOST,
    "enable.gapless.guarantee": _NOT_LOST,
    "enable.idempotence": "It is always on.",
    "max.in.flight": _NOT_LOST,
    "max.in.flight.requests.per.connection": _NOT_LOST,
    "message.max.bytes": "It is what the topic takes.",
    "message.send.max.retries": _NOT_LOST,
    "message.timeout.ms": _NOT_LOST,
    "partitioner": "It is Kafka's default one, murmur2 of the key.",
    "queuing.strategy": _NOT_LOST,
    "retries": _NOT_LOST,
    "transactional.id": "Readers with a replay guard need no transactions.",
}


@explained_call
@dataclass(frozen=True)
class KafkaSink:
    """Delivers what a node emits to a Kafka topic, each row with its place in the order of the node's results.

    In:     topic    it must exist
            key      columns; None: the node's key. One STRING column is plain UTF-8, else JSON
            header   name of the record header with the source chain
            options  more settings of the Kafka client (librdkafka's names), whose values are never shown
            format, key_format  "json", or hr.Avro(…), hr.Protobuf(…), hr.JsonSchema(…) of values and keys; without a schema
                     Avro and JSON Schema take that of the rows. hr.Text(), hr.Bytes() and hr.Number(…) write one column:
                     of a value the one that is not in the key
            kafka    how to reach Kafka, before the options; None: as the stream's logs do, by `build_definitions(kafka=…)`
                     or the environment (`HEADRACE_KAFKA_…`)
            quota    how much it takes in a second (see `hr.Quota`); None: as much as Kafka does
            register  True: a schema that the registry does not have is registered; False: it is refused
    Out:    value      JSON of all columns, nulls too, as `hr.Topic(value=…)` reads it; null for a row that is gone
            timestamp  the row's event time
            header     of a node with state `[[node, partition, sequence, ordinal]]`: a new source chain. For a named stream
                       or a flat map, the chain of its record goes on: its position, then `[node, 0, sequence]`
            partition  the one in which Kafka's own producers put the key, or, of rows without a key, their place; one
                       ordered task for each
    Law:    nothing in a record depends on micro-batches. Positions increase strictly along each partition and a repeated
            delivery repeats them, so a consumer that reads with `hr.ReplayGuard` takes each result once, after any crash.
            When the topic is given more partitions, keys move as with any producer. A partition starts a path of its
            own, so if a crash falls into the same moment, the micro-batch delivered again may be taken twice where its
            keys moved: drain the stream before adding partitions.
    Raises: DescriptionError; while it delivers TransientError when the broker, the topic or the registry is not there, and
    TerminalError when the columns do not fit the schema or the registry refuses it: the error says which field.
    A record longer than the topic takes, and a row that does not fit the schema, goes to the table of refused rows; the
    others pass.
    """

    of_a_server: ClassVar[bool] = True  # a TestDriver leaves it out
    topic: str
    key: Sequence[str] | None = None
    header: str = "source-chain"
    options: Mapping[str, str] = field(default_factory=dict)
    format: str | Format = "json"
    key_format: str | Format = "json"
    register: bool = True
    kafka: Connection | None = field(default=None, repr=False, compare=False)
    quota: Quota | None = None
    # How the stream reaches its topics.
    _logs: Connection | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        what = "KafkaSink"
        check_quota(self.quota, what)
        check_topic_name(self.topic, what)
        if not isinstance(self.header, str) or not self.header:
            raise DescriptionError(
                f"{what}: header {a_value(self.header)} is not the name of a record header."
            )
        for name, given in (("format", self.format), ("key_format", self.key_format)):
            if given != "json" and not isinstance(given, Avro | JsonSchema | PlainValue | Protobuf):
                raise DescriptionError(
                    f"{what}: {name} {a_value(given)} is no format for writing.",
                    hint="Give 'json', hr.Avro(…), hr.Protobuf(…), hr.JsonSchema(…), hr.Text(), hr.Bytes() or hr.Number(…).",
                )
            if isinstance(given, JsonSchema) and given.registry is None:
                raise DescriptionError(
                    f"{what}: {name} hr.JsonSchema(…) has no registry, and its records begin with the id of a schema there.",
                    hint="Give it registry=…, or write plain JSON: 'json'.",
                )
        if self.key is not None:
            if isinstance(self.key, str) or not self.key or not all(isinstance(n, str) for n in self.key):
                raise DescriptionError(
                    f"{what}: key {a_value(self.key)} is not a list of columns.",
                    hint="Write key=['customer_id'].",
                )
            object.__setattr__(self, "key", tuple(self.key))
        options = KafkaSettings(self.options, f"{what} '{self.topic}': options", _OWNED)
        object.__setattr__(self, "options", options)

    @property
    def name(self) -> str:
        """Tells the sinks of a node apart."""
        return f"kafka-{self.topic}"

    def reached_by(self, settings: Connection) -> KafkaSink:
        """The sink with these settings, unless it has some of its own."""
        return replace(self, kafka=self.kafka or settings, _logs=settings)

    def check(self, node: Node) -> None:
        """Raise DescriptionError for a topic that the node itself reads, and for columns that cannot be its key."""
        self._refuse_own_input(node)
        if self.key is not None:
            self._check_key(node, self.key)
        self._check_plain_values(node)

    def _check_plain_values(self, node: Node) -> None:
        """Raise DescriptionError for plain values whose column is not clear, or has another type, as far as it is known."""
        from headrace.sinks.encoding.plain_rows import require_column

        key, types = tuple(self.key or node.key), {column.name: column.type for column in node.result_columns}
        for part, of, names in (("key", self.key_format, key), ("value", self.format, node.columns)):
            if isinstance(of, PlainValue) and names:
                require_column(of, types, names, key, f"KafkaSink '{self.topic}': {part}")

    def _check_key(self, node: Node, key: Sequence[str]) -> None:
        from headrace.operators.registry import operator_for

        if node.day_column is None:
            if set(key) != set(node.key):
                raise DescriptionError(
                    f"KafkaSink '{self.topic}': key {listed(key)} is not the key of the rows, {listed(node.key)}, by which "
                    "they are revised and deleted.",
                    hint="Leave key out.",
                )
            return
        known = dict.fromkeys((*node.columns, *operator_for(node).identity))
        unknown = [name for name in key if name not in known]
        if unknown:
            raise DescriptionError(
                f"KafkaSink '{self.topic}': key column '{unknown[0]}' is no column of the rows.",
                hint=f"Leave key out, or name some of {listed(tuple(known))}.",
            )

    def _refuse_own_input(self, node: Node) -> None:
        """Refuse a topic from which the node's rows come: each of its rows would make another one, for ever."""
        from headrace.description.node_output import sources_of

        own = self._servers(self.options, self.kafka)
        for topic in sources_of(node):
            theirs = self._servers(topic.options, self._logs)
            if topic.name == self.topic and (own == theirs or own & theirs):
                raise DescriptionError(
                    f"KafkaSink '{self.topic}': the node reads this topic: each row would cause another one, without end.",
                    hint="Send the rows to a topic of their own. A topic of the same name in another cluster needs "
                    f"options={{'{_SERVERS[0]}': '…'}}.",
                )

    @staticmethod
    def _servers(options: Mapping[str, str], otherwise: Connection | None) -> frozenset[str]:
        """Brokers of a cluster; none: those of the stream, which are not known yet."""
        named = next((options[name] for name in _SERVERS if name in options), "")
        return brokers_of(named or ("" if otherwise is None else otherwise.bootstrap_servers))

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Send the rows, in their order within each partition (see `Sink.deliver`)."""
        from headrace.sinks.producing import sender
        from headrace.sinks.refusals import OUTCOMES
        from headrace.spark.one_task import arrow_schema

        destination, partitions = self._destination(delivery)
        records = self._maker(arrow_schema(rows.schema), delivery, partitions).of_frame(rows)
        self._refuse(rows, delivery, records.mapInArrow(sender(destination), OUTCOMES).collect())

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """The same of few rows, in this process (see `TableSink`)."""
        from headrace.sinks.producing import outcomes_of, sender

        destination, partitions = self._destination(delivery)
        records = self._maker(rows.schema, delivery, partitions).of_table(rows)
        self._refuse(rows, delivery, outcomes_of(sender(destination)(records.to_batches())))

    def _destination(self, delivery: Delivery) -> tuple[Destination, int]:
        """Where the records go, and how many partitions the topic has."""
        from headrace.sinks.kept_clients import ask
        from headrace.sinks.producing import Destination

        kafka = self._kafka()
        try:
            partitions, limits = ask(kafka, lambda topic: (len(topic.partitions()), topic.limits()))
        except TerminalError as missing:  # somebody may create it while the stream waits
            raise TransientError(missing.message, detail=missing.detail, hint=missing.hint) from missing
        self.require_own_keys(delivery, limits)
        options = {**kafka.settings.client_options(), **self.options}
        return Destination(self.topic, options, self.header, limits), partitions

    def _refuse(
        self, rows: DataFrame | pa.Table, delivery: Delivery, outcomes: Iterable[Sequence[Any]]
    ) -> None:
        from headrace.sinks.refusals import record_refusals, refusals_of

        store = f"Kafka's topic '{self.topic}'"
        record_refusals(rows, delivery, refusals_of(outcomes, store), store)

    def require_own_keys(self, delivery: Delivery, limits: TopicLimits) -> None:
        """Raise TerminalError for a compacted topic if several rows may have one key."""
        names = self._names(delivery)
        if limits.is_compacted and not set(delivery.identity) <= set(names):
            raise TerminalError(
                f"Kafka's topic '{self.topic}' is compacted (cleanup.policy): it keeps one record of each key, and "
                f"rows of node '{delivery.node}' with one key would be lost.",
                detail=f"Key: {listed(names) if names else 'null'}; identity of the rows: {listed(delivery.identity)}.",
                hint="Set cleanup.policy=delete, or let the key tell the rows apart: "
                f"key=[{', '.join(map(repr, delivery.identity))}]. For the latest row of each key deliver a table.",
            )

    def _maker(self, schema: pa.Schema, delivery: Delivery, partitions: int) -> RecordMaker:
        """The function of rows that makes their records.

        In:     schema  of the rows
        Raises: as `encoder_of`
        """
        from headrace.sinks.encoding import encoder_of
        from headrace.sinks.encoding.plain_rows import columns_of
        from headrace.sinks.kafka_records import Part, RecordMaker, columns_in

        key = self._names(delivery)
        value = columns_of(self.format, delivery.columns, key, f"KafkaSink '{self.topic}': value")

        def part(name: str, of: str | Format, columns: Sequence[str]) -> Part:
            encoder = None
            if isinstance(of, Format) and columns:
                encoder = encoder_of(
                    of, self.topic, name, columns_in(schema, columns), register=self.register
                )
            return Part(tuple(columns), encoder, name == "key")

        parts = part("key", self.key_format, key), part("value", self.format, value)
        return RecordMaker(delivery.node, *parts, partitions)

    def _names(self, delivery: Delivery) -> tuple[str, ...]:
        return tuple(self.key or delivery.key)

    def _kafka(self) -> KafkaTopic:
        from headrace.spark.kafka import KafkaSettings as FromEnvironment
        from headrace.spark.kafka import KafkaTopic

        return KafkaTopic(self.topic, (self.kafka or FromEnvironment()).of(self.options), self.options)
