"""Random pipelines on a lake: what each node streams, its backfill computes again, and the oracle finds.

The pipelines are those of the kernel's law. Here the real engine runs them, with tables, logs of nodes and commits.
`HEADRACE_LAKE_PIPELINES=20` tries more.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.testing import TestDriver
from tests.laws.kernel.test_compositions import Drawn, pipelines

pytestmark = pytest.mark.fast

PIPELINES = int(os.environ.get("HEADRACE_LAKE_PIPELINES", "20"))
BASE_MS = 1_700_000_000_000

Record = tuple[str, str | None, int | None, int, int]
RECORDS: st.SearchStrategy[Record] = st.tuples(
    st.sampled_from("ttu"),
    st.sampled_from(["a", "b", "ü", None]),
    st.sampled_from([None, *range(5)]),
    st.integers(-3, 3),  # seconds beside the cut's own time
    st.integers(0, 1),  # partition
)
CUTS = st.lists(st.lists(RECORDS, min_size=3, max_size=8), min_size=3, max_size=5)


@settings(
    deadline=None,
    max_examples=PIPELINES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[*HealthCheck],
)
@given(pipeline=pipelines(), cuts=CUTS)
def test_a_pipeline_streams_what_it_backfills_and_what_the_oracle_finds(
    pipeline: Drawn, cuts: list[list[Record]]
) -> None:
    nodes = [node for node in pipeline.nodes if not node.required_name.startswith("unnamed_")]
    topics = {topic.name for node in pipeline.nodes for topic in node.topics}
    driver = TestDriver(nodes)
    try:
        for number, records in enumerate(cuts):
            for record in records:
                if record[0] in topics:
                    pipe(driver, number, *record)
            driver.advance_wall_clock("3 seconds")
            if number == 1:
                driver.drain()
            driver.cut()
        for node in nodes:
            driver.check(node.required_name)
    finally:
        driver.close()


def pipe(
    driver: TestDriver, cut: int, topic: str, key: str | None, value: int | None, beside: int, partition: int
) -> None:
    """Give the driver a record."""
    at_ms = BASE_MS + (9 * cut + beside) * 1_000
    told = None if value is None else {"value": value}
    driver.pipe(topic, key=key, value=told, timestamp_ms=at_ms, partition=partition)
