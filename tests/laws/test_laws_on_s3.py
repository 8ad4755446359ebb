"""The law with the lake on a real S3 server: the same worlds lead to the same tables as on a local disk.

Both drivers live through one world at the same commit times, each with its own crashes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from headrace.testing import TestDriver
from tests.laws import tables
from tests.laws.driving import WORLDS, SideBySide, live_through
from tests.laws.worlds import RUNNING, SUBJECTS, World, is_lively, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.local.object_store import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.s3]

TOPIC = "doubles"
NODES: list[Node] = [SUBJECTS[TOPIC][0], SUBJECTS[TOPIC][3], RUNNING[TOPIC]]
NAMES = [node.required_name for node in NODES]


class OnS3(SideBySide):
    """A driver whose lake lies in a bucket."""

    def __init__(self, bucket: str, spark: SparkSession) -> None:
        self._bucket = bucket
        super().__init__(NODES, spark)

    def _root(self, place: str) -> str:
        (self._folder / place).mkdir(exist_ok=True)
        return f"{self._bucket}/{place}-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def drivers(spark: SparkSession, object_store: ObjectStore) -> Iterator[tuple[TestDriver, TestDriver]]:
    """One on S3 and one on a local disk."""
    object_store.start().wait_ready()
    there, here = OnS3(f"{object_store.root}/{secrets.token_hex(4)}", spark), SideBySide(NODES, spark)
    yield there, here
    there.close()
    here.close()


@WORLDS
@given(world=worlds([TOPIC], NAMES).filter(is_lively))
def test_in_any_cuts_and_through_any_crash_the_tables_are_those_of_a_local_disk(
    drivers: tuple[TestDriver, TestDriver], world: World
) -> None:
    there, here = drivers
    for driver in drivers:
        driver.reset()
    live_through(world, there)
    live_through(replace(world, crashes={}), here)
    assert tables.stream_times(there, TOPIC) == tables.stream_times(here, TOPIC)
    for name in NAMES:
        assert held(there, name) == held(here, name), name
        assert rows(there.backfill(name)) == rows(there.read(name)), name


def held(driver: TestDriver, name: str) -> dict[str, Any]:
    """All tables of a node, but for times of commits."""
    found = {"results": rows(driver.read(name)), "ledger": tables.ledger(tables.rows(driver.ledger(name)))}
    return found if name == RUNNING[TOPIC].required_name else found | {
        "late": tables.late(tables.rows(driver.late(name)))
    }  # fmt: skip


def rows(frame: Any) -> list[str]:
    """The rows in a fixed order; NaN is NaN."""
    return sorted(map(repr, tables.rows(frame)))
