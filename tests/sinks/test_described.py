"""Sinks as descriptions: what is said wrongly is refused when it is said; secrets are not shown; nothing is imported."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import pytest
from dagster import EnvVar

import headrace as hr
from headrace.errors import DescriptionError
from headrace.nodes.descriptions.sink_settings import reached_by
from headrace.nodes.descriptions.topics import upstream_first
from headrace.settings.kafka import KafkaSettings

pytestmark = pytest.mark.fast

visits = hr.Topic("visits", key="customer_id STRING", value="customer_id STRING, page STRING")
clicks = hr.Topic("clicks", key="customer_id STRING", value="customer_id STRING, page STRING")


def totals(*merged: hr.Topic) -> Any:
    stream: Any = visits
    for topic in merged:
        stream = stream.merge(topic)
    return stream.group_by("customer_id", "page").aggregate(n=hr.count())


def windows() -> Any:
    grouped = visits.group_by("customer_id").window(hr.tumbling("1 minute"), grace="1 minute")
    return grouped.aggregate(n=hr.count()).suppress(hr.until_window_closes())


def test_descriptions_are_values() -> None:
    assert hr.KafkaSink("t") == hr.KafkaSink("t")
    assert hash(hr.KafkaSink("t", options={"a": "b"})) == hash(hr.KafkaSink("t", options={"a": "b"}))
    assert hr.KafkaSink("t", key=["a"]) == hr.KafkaSink("t", key=("a",))
    assert hr.PostgresSink("t") == hr.PostgresSink("t", dsn="HEADRACE_POSTGRES_DSN")
    assert windows().to(hr.KafkaSink("t")).to(hr.PostgresSink("t")).fingerprint() == windows().fingerprint()


@pytest.mark.parametrize(("name", "why"), [("ü" * 32, "longer than 63 bytes"), ("ctid", "one of its own")])
def test_a_name_that_postgresql_cannot_hold_is_refused(name: str, why: str) -> None:
    totals = visits.group_by("page").aggregate(**{name: hr.count()})
    with pytest.raises(DescriptionError, match=why):
        totals.to(hr.PostgresSink("t"))
    assert totals.to(hr.KafkaSink("t")).sinks


def test_secrets_are_not_shown() -> None:
    sink = hr.KafkaSink("t", options={"sasl.password": "s3cret"})
    assert "s3cret" not in f"{sink!r} {totals().to(sink)!r}"


@pytest.mark.parametrize("dsn", [EnvVar("STORE"), "STORE"])
def test_a_connection_string_is_given_by_the_name_of_its_variable(dsn: str) -> None:
    assert hr.PostgresSink("t", dsn=dsn).dsn == "STORE"


@pytest.mark.parametrize("dsn", ["postgresql://me:s3cret@host/db", "host=h password=s3cret", "", None, 3])
def test_a_connection_string_itself_is_refused_and_not_repeated(dsn: Any) -> None:
    with pytest.raises(DescriptionError, match="not the name of an environment variable") as error:
        hr.PostgresSink("t", dsn=dsn)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (lambda: hr.KafkaSink("no topic"), "'no topic' is not a topic name"),
        (lambda: hr.KafkaSink("t", header=""), "header '' is not the name"),
        (lambda: hr.KafkaSink("t", key="customer_id"), "key 'customer_id' is not a list"),
        (lambda: hr.KafkaSink("t", options={"acks": "1"}), "'acks' is set by Headrace"),
        # Before, Kafka's client refused these two when the first rows came, with an error of its own.
        (lambda: hr.KafkaSink("t", options={"retries": "0"}), "'retries' is set by Headrace"),
        (lambda: hr.KafkaSink("t", options={"queuing.strategy": "lifo"}), "'queuing.strategy' is set by"),
        (
            lambda: hr.KafkaSink("t", options={"transactional.id": "x"}),
            "'transactional.id' is set by Headrace",
        ),
        (lambda: hr.PostgresSink("no table"), "'no table' is not a name"),
        (lambda: hr.PostgresSink("a.b.c"), "'a.b.c' is not a name"),
        (lambda: hr.PostgresSink('t"; DROP TABLE x'), "is not a name"),
        (lambda: hr.PostgresSink("t" * 49), "at most 48 characters"),
        (lambda: hr.PostgresSink("t", connections=0), r"connections 0 \(int\) is not a whole number above 0"),
    ],
)
def test_what_is_said_wrongly_is_refused(sink: Any, said: str) -> None:
    with pytest.raises(DescriptionError, match=said):
        sink()


def test_revised_rows_have_their_own_key_and_appended_rows_any_of_their_columns() -> None:
    for key in (["n"], ["customer_id"]):
        with pytest.raises(DescriptionError, match="is not the key of the rows, customer_id, page"):
            totals().to(hr.KafkaSink("t", key=key))
    assert windows().to(hr.KafkaSink("t", key=["customer_id"])).sinks
    stream = visits.where("page <> 'x'").named("stream")
    for key in (["page"], ["__sequence", "__place"]):
        assert stream.to(hr.KafkaSink("t", key=key)).sinks
    with pytest.raises(DescriptionError, match="'n' is no column of the rows") as error:
        stream.to(hr.KafkaSink("t", key=["n"]))
    assert "customer_id, page, __sequence, __place" in str(error.value)


def test_a_topic_that_the_node_reads_is_no_sink_of_it() -> None:
    own, bootstrap = hr.KafkaSink("visits"), "bootstrap.servers"
    chained = totals().named("totals").changes().where("n > 1").named("many")
    for node in (totals(), totals(clicks), visits.where("page = 'x'").named("x"), chained):
        with pytest.raises(DescriptionError, match="the node reads this topic") as error:
            node.to(own)
        assert bootstrap in str(error.value), "the way out"
    assert totals().to(hr.KafkaSink("visits", options={bootstrap: "elsewhere:9092"})).sinks
    assert chained.to(hr.KafkaSink("totals")).sinks


@pytest.mark.parametrize(
    ("topic", "sink"),
    [
        ("a:9092,b:9092", "b:9092,a:9092"),
        ("a:9092,b:9092", " b:9092 "),
        ("a:9092", "A"),
        ("SSL://a", "a:9092"),
        ("127.0.0.1:9092", "localhost"),
    ],
)
def test_brokers_in_another_spelling_are_the_same(topic: str, sink: str) -> None:
    described = partial(hr.Topic, "visits", key="customer_id STRING", value="page STRING")
    stream = described(options={"bootstrap.servers": topic}).where("page = 'x'")
    for name in ("bootstrap.servers", "metadata.broker.list"):
        with pytest.raises(DescriptionError, match="the node reads this topic"):
            stream.to(hr.KafkaSink("visits", options={name: sink})).named("x")
    node = stream.to(hr.KafkaSink("visits", options={"bootstrap.servers": "a:9093,elsewhere"})).named("x")
    assert node.sinks
    own = (
        described()
        .where("page = 'x'")
        .to(hr.KafkaSink("visits", options={"bootstrap.servers": sink}))
        .named("x")
    )
    with pytest.raises(
        DescriptionError, match="the node reads this topic"
    ):  # the stream's settings name the broker
        reached_by([own], KafkaSettings(bootstrap_servers=topic))
    assert reached_by([own], KafkaSettings(bootstrap_servers="elsewhere"))


def test_a_node_of_several_topics_reads_them_in_one_order() -> None:
    assert totals(clicks).reads_together
    assert not totals().reads_together


def test_two_sinks_of_a_node_have_two_names() -> None:
    assert len(totals().to(hr.PostgresSink("t")).to(hr.PostgresSink("u")).sinks) == 2
    with pytest.raises(DescriptionError, match="two sinks are named 'postgres-t'"):
        totals().to(hr.PostgresSink("t")).to(hr.PostgresSink("t"))
    with pytest.raises(DescriptionError, match="two sinks have the store of 'postgres-t'"):
        totals().to(hr.PostgresSink("t")).to(hr.PostgresSink("public.t"))


def test_two_nodes_do_not_share_a_table() -> None:
    one = totals().to(hr.PostgresSink("t")).named("one")
    for other in (hr.PostgresSink("t"), hr.PostgresSink("public.t")):
        with pytest.raises(DescriptionError, match="Nodes 'one', 'two' deliver to one store"):
            hr.describe(one, totals().to(other).named("two"))
        with pytest.raises(DescriptionError, match="Nodes 'one', 'two' deliver to one store"):
            upstream_first([one, totals().to(other).named("two")])
    for apart in (hr.PostgresSink("t", dsn="OTHER"), hr.PostgresSink("x.t"), hr.KafkaSink("t")):
        assert hr.describe(one, totals().to(apart).named("two"))


class Own:
    """A sink of somebody's own, whose `identities` is not what Headrace calls."""

    name = "own"

    def deliver(self, rows: Any, delivery: Any) -> None: ...

    def correct(self, rows: Any, delivery: Any, through: int) -> None: ...

    def identities(self) -> None: ...


class NotCallable(Own):
    """`identities` is no method."""

    identities: Any = "nothing"


@pytest.mark.parametrize("sink", [Own(), NotCallable()])
def test_a_method_of_the_protocol_with_other_parameters_is_refused(sink: Any) -> None:
    with pytest.raises(
        DescriptionError, match=r"has `identities`, which cannot be called as identities\(spark, delivery\)"
    ):
        totals().to(sink)


def test_describing_imports_neither_spark_nor_a_client() -> None:
    code = (
        "import sys, headrace as hr; hr.KafkaSink('t'); hr.PostgresSink('t'); "
        "print([m for m in ('pyspark', 'psycopg', 'confluent_kafka', 'tenacity') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
