"""A large increment of tables and joins is folded on all cores of a process, and has the rows of its log."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

import headrace as hr
from headrace.engine.folding import bucket_tasks, spark_fold
from headrace.engine.folding.fold_stages import Increment
from headrace.testing import TestDriver
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.fast

ORDERS = hr.Topic("orders", key="id STRING", value="item STRING, n BIGINT", idle_timeout=None)
ITEMS = hr.Topic("items", key="item STRING", value="name STRING", idle_timeout=None)
STOCK = hr.Topic("stock", key="item STRING", value="m BIGINT", idle_timeout=None)
JOINED = ORDERS.table().join(ITEMS.table(), on="item", how="left")
NODES: dict[str, Any] = {
    "left": JOINED,
    "inner": ORDERS.table().join(ITEMS.table(), on="item"),
    "outer": ITEMS.table().join(STOCK.table(), on="item", how="outer"),
    "steps": JOINED.with_column("twice", "n * 2").where("twice > 40"),
}


@dataclass(frozen=True)
class OneStep:
    """A step as far as `on_cores` looks at it."""

    threads: bool


@dataclass(frozen=True)
class Sized:
    """An increment as far as `on_cores` looks at it."""

    log_bytes: int


def cores_for(threads: bool, log_bytes: int = 16 << 20, master: str = "local[2]") -> Any:
    steps, increment = cast("Any", [OneStep(True), OneStep(threads)]), cast("Increment", Sized(log_bytes))
    return spark_fold.on_cores(increment, steps, lambda: master)


@pytest.mark.parametrize("how", NODES)
def test_threads_show_in_no_table(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(spark_fold, "THREADS_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    folded, run = list[int](), bucket_tasks.run_in_threads

    def counted(tasks: Any) -> Any:
        folded.append(len(tasks))
        return run(tasks)

    monkeypatch.setattr(spark_fold, "run_in_threads", counted)
    driver, random = TestDriver([NODES[how].named("joined")]), Random(7)
    for cut in range(6):
        for _ in range(60):
            item, n = f"i{random.randrange(9)}", random.randrange(100)
            for topic, key, value in (
                ("orders", f"o{random.randrange(30)}", {"item": item, "n": n}),
                ("items", item, {"name": f"name {n}"}),
                ("stock", item, {"m": n}),
            ):
                if topic in driver._topics and random.random() < 0.5:
                    driver.pipe(topic, key=key, value=value if n > 5 else None, partition=len(key) % 2)
        if cut == 3:
            driver.crash("before outputs")
        driver.cut()
    assert {*folded} == {3}
    assert driver.rows("joined")
    driver.check("joined")
    driver.close()


def test_a_thread_that_fails_ends_the_fold_after_the_others_have_ended() -> None:
    ended, ran, begun = list[str](), list[threading.Thread](), threading.Barrier(3, timeout=PATIENCE_S)

    class Fails(bucket_tasks.BucketTask):
        def __init__(self) -> None: ...

        def __call__(self) -> bucket_tasks.BucketResult:
            ran.append(threading.current_thread())
            begun.wait()
            raise OSError("the disk is full")

    class Writes(Fails):
        def __call__(self) -> bucket_tasks.BucketResult:
            ran.append(threading.current_thread())
            begun.wait()
            time.sleep(0.1)
            ended.append(threading.current_thread().name)
            return bucket_tasks.BucketResult()

    with pytest.raises(OSError, match="the disk is full"):
        bucket_tasks.run_in_threads([Fails(), Writes(), Writes()])
    assert len({*ended}) == 2
    assert not any(each.is_alive() for each in ran if each is not threading.current_thread())


def test_one_increment_of_a_process_at_a_time_is_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    with cores_for(True) as how:
        assert how.buckets == spark_fold.CORES_MAX
        with cores_for(True) as other:
            assert other is spark_fold.AS_ONE
    with pytest.raises(OSError, match="gone"), cores_for(True):
        raise OSError("gone")
    with cores_for(True) as how:
        assert how.buckets > 1


def test_what_runs_code_of_users_is_small_or_huge_or_has_executors_is_not_spread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    sizes = cores_for(True, 1_000), cores_for(True, 1 << 30)
    for way in (cores_for(False), *sizes, cores_for(True, master="spark://host:7077")):
        with way as how:
            assert how is spark_fold.AS_ONE
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with cores_for(True) as how:
        assert how is spark_fold.AS_ONE
