"""The topics of `headrace dev` at a real broker: those that exist are taken as they are, and a deleted one is named."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import headrace as hr
from headrace.errors import TerminalError
from headrace.local.development.dev_traffic import make_topics, send
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics, partitions_of
from tests.waiting import PATIENCE_S

VIEWS = hr.Topic("views", key="user STRING", value="page STRING")
PAGES = VIEWS.where("page IS NOT NULL").to(hr.KafkaSink("narrow")).named("pages")


@pytest.mark.broker
def test_topics_that_exist_are_taken_and_a_deleted_one_ends_the_traffic_by_name(kafka: Broker) -> None:
    bootstrap = kafka.bootstrap_servers
    create_topics(bootstrap, {"narrow": 1})
    topics = make_topics([PAGES], bootstrap)  # before: "Topic 'narrow' has 1 partitions, not 3."
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = partitions_of(admin)
    assert (made["narrow"], made["views"]) == (1, 3)
    soon = {"topic.metadata.refresh.interval.ms": 500, "topic.metadata.propagation.max.ms": 1_000}
    producer = Producer({"bootstrap.servers": bootstrap, **soon})
    send(producer, topics, "views", "ann", {"page": "/"}, 1_000)
    assert producer.flush(PATIENCE_S) == 0
    admin.delete_topics(["views"])["views"].result()
    with pytest.raises(TerminalError, match="Topic 'views' is no longer at the broker"):
        _send_for_ever(producer, topics)  # before: KafkaException, with a stack trace


def _send_for_ever(producer: Producer, topics: dict[str, hr.Topic]) -> None:
    for _ in range(600):
        send(producer, topics, "views", "ann", {"page": "/"}, 1_000)
        time.sleep(0.1)
