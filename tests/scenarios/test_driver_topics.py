"""A driver takes records of topics that no node reads; a processor needs no `init` to forward rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

VISITS = hr.Topic("visits", key="user STRING", value="n INT", idle_timeout=None)
OTHERS = hr.Topic("others", key="user STRING", value="n INT", idle_timeout=None)


class Doubles(hr.Processor):
    """Forwards a row for each visit."""

    def process(self, record: hr.Record) -> None:
        self.context.forward(n=2 * record["n"])


def test_records_of_a_topic_that_no_node_reads_come_into_its_log_alone() -> None:
    counts = VISITS.group_by("user").aggregate(n=hr.count()).named("counts")
    driver = TestDriver([counts], topics=[OTHERS])
    for topic in ("visits", "others"):
        driver.pipe(topic, key="a", value={"n": 1}, timestamp_ms=0)
    driver.cut()
    assert driver.rows("counts") == [{"user": "a", "n": 1}]
    driver.check("counts")
    driver.close()


def test_a_processor_without_init_has_its_context(drive: Drive) -> None:
    driver = drive(VISITS.process(Doubles, output="n INT").named("doubled"))
    driver.pipe("visits", key="a", value={"n": 21}, timestamp_ms=0)
    driver.cut()
    assert driver.rows("doubled") == [{"n": 42}]
    driver.check("doubled")
