"""A sink with a quota: a full one delays the next micro-batch, drops nothing, and is a figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.description.refusal import refused

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.conftest import Drive

pytestmark = pytest.mark.fast

VISITS = hr.Topic("visits", key="user STRING", value="n INT", idle_timeout=None)


@dataclass
class Store:
    """Keeps what it is given."""

    quota: hr.Quota | None
    name: str = "store"
    rows: list[int] = field(default_factory=list)

    def deliver(self, rows: Any, delivery: hr.Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: hr.Delivery) -> None:
        self.rows += rows["n"].to_pylist()


def test_a_full_quota_delays_the_next_micro_batch_and_nothing_else(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: two rows a second. Five rows fill the quota for 2.5 seconds, two more at 1 second until 3.5."""
    now = [100.0]
    monkeypatch.setattr("headrace.writing.delivery.sink_quotas.time.monotonic", lambda: now[0])
    store, free = Store(hr.Quota(rows_per_second=2)), Store(None)
    limited, other = VISITS.to(store).named("limited"), VISITS.to(free).named("other")
    driver = drive(limited, other)
    runners = driver._runners
    for n in range(5):
        driver.pipe("visits", key="a", value={"n": n}, timestamp_ms=0)
    driver.cut()
    assert store.rows == free.rows == [0, 1, 2, 3, 4]
    assert [runners[name].due(driver.now_ms) for name in ("limited", "other")] == [False, True]
    assert runners["limited"].quotas.numbers() == {"sink_delay_seconds": 2.5}
    assert runners["other"].quotas.numbers() == {}
    now[0] += 1
    for n in (5, 6):
        driver.pipe("visits", key="a", value={"n": n}, timestamp_ms=0)
    driver.cut()  # a driver does not wait
    assert runners["limited"].quotas.numbers() == {"sink_delay_seconds": 2.5}
    now[0] += 2.5
    assert runners["limited"].due(driver.now_ms)
    assert runners["limited"].quotas.numbers() == {"sink_delay_seconds": 0.0}
    assert store.rows == free.rows
    driver.check("limited")


def test_bytes_count_as_rows_do_and_the_fuller_bound_decides() -> None:
    quota = hr.Quota(rows_per_second=10, bytes_per_second=1_000)
    assert [quota.seconds(20, 500), quota.seconds(20, 5_000)] == [2.0, 5.0]


def test_a_sink_says_its_quota_and_what_is_none_is_refused() -> None:
    sink = hr.KafkaSink("out", quota=hr.Quota(rows_per_second=1_500))
    node = VISITS.to(sink).named("sent")
    assert str(hr.describe(node)).startswith("sent, to kafka-out (at most 1,500 rows a second)")
    for wrong, words in (
        ({}, "there is no bound"),
        ({"rows_per_second": 0}, "rows_per_second 0"),
    ):
        with refused(words):
            hr.Quota(**wrong)
    with refused("quota 5", "is no quota"):
        hr.PostgresSink("visits", quota=5)  # type: ignore[arg-type]
