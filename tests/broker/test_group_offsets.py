"""Offsets told to a consumer group: a broker that was away ends nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headrace.local.broker import Broker, create_topics
from headrace.spark.kafka import BrokerUnreachableError, KafkaSettings, KafkaTopic
from tests.broker.harness import group_offsets

pytestmark = pytest.mark.broker


def test_a_group_that_a_killed_broker_was_not_told_of_is_told_when_it_is_back(tmp_path: Path) -> None:
    """The admin client's request for it, timed out, aborts this process at that moment."""
    with Broker(tmp_path / "kafka") as broker:
        broker.wait_ready()
        create_topics(broker.bootstrap_servers, {"readings": 2})
        topic = KafkaTopic("readings", KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
        topic.commit_offsets("dashboards", {0: 1, 1: 1})
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        for offset in (2, 3):
            with pytest.raises(BrokerUnreachableError, match="does not answer"):
                topic.commit_offsets("dashboards", {0: offset, 1: offset})
        broker.stop()
        broker.start().wait_ready()
        topic.commit_offsets("dashboards", {0: 4})
        assert group_offsets(broker, "dashboards", "readings")[0] == 4
