"""Rows of every kind of node in a real PostgreSQL and in a real Kafka topic are the rows of its table.

That holds after they were appended. One kind of each form of identity shows that it holds after
rows were delivered again, and after a backfill that has corrected the table; the matrix of operations has every kind.
After an erasure the lake does not hold the key, nor does the database: one kind of each form shows that.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import headrace as hr
from headrace.lifecycle.backfill import Backfill
from headrace.local.postgres import Postgres
from headrace.local.servers.broker import Broker, create_topics
from headrace.operators.contract import OF_PLACE
from headrace.operators.registry import KINDS as KNOWN
from headrace.operators.registry import operator_for
from headrace.spark.lake_rows import read
from headrace.testing import TestDriver
from headrace.writing.delivery.redeliver import redeliver
from tests.lake.other_hands import alter, delete
from tests.lake.searching import files_with
from tests.laws.driving import SideBySide
from tests.sinks import every_kind
from tests.sinks.consumer import arrived

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.postgres]
ROUNDS = 3
# By a window of a partition, by the place, by a key.
EACH_IDENTITY = ("SessionWindows", "StreamJoin", "Join")
# By a key and a window, by what a window gave before.
OTHERS = [pytest.param(kind, marks=pytest.mark.long) for kind in ("TimeWindows", "ChangesOfSessions")]


@pytest.fixture(scope="module")
def topics(kafka: Broker) -> Callable[[str], str]:
    """A topic for each node, under names of their own."""
    run = uuid.uuid4().hex[:8]
    names = {every_kind.name_of(kind): f"{every_kind.name_of(kind)}-{run}" for kind in every_kind.NODES}
    create_topics(kafka.bootstrap_servers, dict.fromkeys(names.values(), 2))
    return names.__getitem__


@pytest.fixture(scope="module")
def driver(
    spark: SparkSession, kafka: Broker, server: Postgres, topics: Callable[[str], str]
) -> Iterator[TestDriver]:
    """A node of each kind, with both sinks, and records."""
    options = {"bootstrap.servers": kafka.bootstrap_servers}
    described = every_kind.nodes(hr.PostgresSink, lambda name: hr.KafkaSink(topics(name), options=options))
    server.start().wait_ready()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADRACE_POSTGRES_DSN", server.dsn)
        made = SideBySide(described, spark, reaches_servers=True)
        for number in range(ROUNDS):
            every_kind.pipe(made, number)
            if number:
                made.cut()
        yield made
        made.close()


def rows_of(driver: TestDriver, node: Node) -> Counter[str]:
    """The rows of its table as text, which can be counted."""
    rows = driver.rows(node.required_name)
    return Counter(plain(node, {name: row[name] for name in node.columns}) for row in rows)


def plain(node: Node, row: dict[str, Any]) -> str:
    """A row as text, with times as Python writes them."""
    for column in node.result_columns:
        value = row[column.name]
        if column.type == "TIMESTAMP" and value is not None:
            moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
            row[column.name] = moment.astimezone(dt.UTC).isoformat(timespec="milliseconds")
    return json.dumps(row, sort_keys=True)


def in_postgres(database: psycopg.Connection, node: Node) -> Counter[str]:
    names = ", ".join(f'"{name}"' for name in node.columns)
    query = f"SELECT row_to_json(r)::text FROM (SELECT {names} FROM {node.required_name}) r"
    return Counter(plain(node, json.loads(text)) for (text,) in database.execute(query).fetchall())


def tables_with(database: psycopg.Connection, *texts: str) -> dict[str, list[str]]:
    """The tables that hold one of these texts, as it is or as bytes, with the first such rows."""
    names = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    wanted = [form for text in texts for form in (text, text.encode().hex())]
    found = {}
    for (name,) in names:
        rows = database.execute(f'SELECT t::text FROM "{name}" t').fetchall()
        if with_them := [row for (row,) in rows if any(form in row.lower() for form in wanted)]:
            found[name] = with_them[:2]
    return found


def in_kafka(kafka: Broker, topic: str, node: Node) -> Counter[str]:
    """The rows that a reader with a guard holds: of appended rows all, of others the newest of each key."""
    records = arrived(kafka, topic, guarded=True)
    if node.day_column is None:
        values = [*{record.key: record.value for record in records}.values()]
    else:
        values = [record.value for record in records]
        assert all(value is not None for value in values), "no row that is appended is a deletion"
    return Counter(plain(node, json.loads(value)) for value in values if value is not None)


def test_there_is_a_node_of_every_kind() -> None:
    assert every_kind.KINDS.keys() == KNOWN.keys()


def test_both_stores_hold_the_rows_of_every_kind_of_node(
    driver: TestDriver, kafka: Broker, database: psycopg.Connection, topics: Callable[[str], str]
) -> None:
    wrong = [differing(driver, kafka, database, topics, node) for node in driver._nodes.values()]
    assert not any(wrong), json.dumps([each for each in wrong if each], indent=1)


def differing(
    driver: TestDriver,
    kafka: Broker,
    database: psycopg.Connection,
    topics: Callable[[str], str],
    node: Node,
) -> dict[str, Any]:
    """The stores that do not hold the rows of a node's table: what they have more, and what they lack."""
    name, wanted = node.required_name, rows_of(driver, node)
    assert sum(wanted.values()) > 1, f"{name} has no rows"
    stores = {"PostgreSQL": in_postgres(database, node), "Kafka": in_kafka(kafka, topics(name), node)}
    return {
        f"{name} in {store}": [[*(held - wanted)][:2], [*(wanted - held)][:2]]
        for store, held in stores.items()
        if held != wanted
    }


@pytest.mark.parametrize("kind", [*EACH_IDENTITY, *OTHERS])
def test_both_stores_hold_the_rows_that_were_delivered_again_and_corrected(
    driver: TestDriver,
    kafka: Broker,
    database: psycopg.Connection,
    topics: Callable[[str], str],
    kind: str,
) -> None:
    node, lake = driver._nodes[every_kind.name_of(kind)], driver._lake
    to_postgres, to_kafka = f"postgres-{node.required_name}", f"kafka-{topics(node.required_name)}"
    redeliver(driver.spark, lake, node, sinks=[to_postgres])
    if node.day_column is not None:
        redeliver(driver.spark, lake, node, sinks=[to_kafka])
    assert differing(driver, kafka, database, topics, node) == {}
    if node.day_column is None:
        return
    before = in_postgres(database, node)
    spoil(driver, node)
    redeliver(driver.spark, lake, node, sinks=[to_postgres])
    assert in_postgres(database, node) != before, "nothing was taken away"
    assert any(verdict.swapped for verdict in Backfill(driver.spark, lake, node).run())
    assert differing(driver, kafka, database, topics, node) == {}


def test_an_erased_key_stands_neither_in_the_lake_nor_in_the_database(
    driver: TestDriver, database: psycopg.Connection
) -> None:
    """Where the key is a part of the identity, PostgreSQL remembers that it was deleted, until somebody deletes that."""
    gone, every = every_kind.SENSORS[0], [*driver._nodes.values()]
    assert len(files_with(driver, gone)) > len(every)
    assert {node.required_name for node in every} <= {*tables_with(database, gone)}
    for topic in ("readings", "sites"):
        driver.erase(topic, gone)
    assert files_with(driver, gone) == []
    kinds = ("SessionWindows", "StreamJoin", "Batches", "TableAggregate")
    nodes = [driver._nodes[every_kind.name_of(kind)] for kind in kinds]
    for node in nodes:
        redeliver(driver.spark, driver._lake, node, sinks=[f"postgres-{node.required_name}"])
        held, wanted = in_postgres(database, node), rows_of(driver, node)
        assert held == wanted, node.required_name
    own = {f"{node.required_name}{more}" for node in nodes for more in ("", "__deleted")}
    remembered = {
        f"{node.required_name}__deleted": column
        for node in nodes
        for column in operator_for(node).identity
        if column in ("sensor", "site", "batch_id")
    }
    assert {*tables_with(database, gone)} & own == {*remembered}
    for name, column in remembered.items():
        database.execute(f"DELETE FROM {name} WHERE {column} LIKE '%{gone}%'")
    assert not {*tables_with(database, gone)} & own


def spoil(driver: TestDriver, node: Node) -> None:
    """Take the rows of one log commit away, and move those of another one to a commit that never was."""
    uri = driver._lake.table(node.required_name)
    commits = sorted(row[0] for row in read(driver.spark, uri).select("__sequence").distinct().collect())
    delete(uri, f"__sequence = {commits[0]}")
    if len(commits) > 1:
        alter(uri, {"__sequence": str(commits[-1] - 1)}, f"__sequence = {commits[-1]}")


def test_rows_that_are_only_appended_are_told_apart_by_their_place() -> None:
    appended = {
        kind
        for kind, node in every_kind.KINDS.items()
        if operator_for(node.named(every_kind.name_of(kind))).identity == OF_PLACE
    }
    assert appended == {
        "Distinct", "FlatMapped", "Lookup", "Merged", "NamedStream", "Processed", "StreamJoin", "Suppressed",
        "TableChanges",
    }  # fmt: skip
    sessions = every_kind.KINDS["SessionWindows"].named("s")
    assert operator_for(sessions).identity == ("sensor", "window_start", "window_end", "__partition")
