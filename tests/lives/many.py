"""Many lives: `make lives`. It goes on where the last call stopped: with the next seed of `results.jsonl`.

    make lives ARGS="--minutes 30"
    make lives ARGS="--seed 7 --lives 25"      these lives again, and no line in the results
    make lives ARGS="--tier 2 --minutes 30"    people do what needs Spark, too; one process

A seed is some lives. A life that fails is shrunk, printed, and kept as a test in `tests/lives/kept`. It ends with 1 if one
has failed.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.spark.on_demand import laptop_session
from tests.faults.results import revision
from tests.lives.drawing import lives
from tests.lives.one import live
from tests.lives.shrinking import Shrinking
from tests.lives.story import Life

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
RESULTS, KEPT = HERE / "results.jsonl", HERE / "kept"
LIVES_A_SEED = 25
SHRINK_SECONDS = 60.0


@dataclass
class Done:
    """What the lives of a seed were. In: failure  the shrunk life that failed, as Python; reason: what is wrong then"""

    seed: int
    lives: int = 0
    micro_batches: int = 0
    log_commits: int = 0
    troubles: int = 0
    cpu_s: float = 0.0
    failure: str = ""
    reason: str = ""
    failed_after: int = 0
    revision: str = ""
    date: str = ""
    tier: int = 1
    kinds: list[str] = field(default_factory=list)


def in_words(error: Exception) -> str:
    """An error as a fault of a life."""
    return f"{type(error).__name__}: {error}"


def fault_of(life: Life, spark: SparkSession | None = None) -> str:
    """Live through a life. Out: what is wrong; empty: nothing"""
    try:
        live(life, spark)
    except Exception as error:
        return in_words(error)
    return ""


def try_seed(
    seed: int,
    number: int = LIVES_A_SEED,
    *,
    shrinks: bool = True,
    spark: SparkSession | None = None,
    swarm: bool = True,
) -> Done:
    """Live the lives of a seed. In: spark  a session: the lives are of the second tier; swarm: see `lives`"""
    done, began, kinds = Done(seed), time.process_time(), set[str]()

    for life in islice(lives(seed, acts=spark is not None, swarm=swarm), number):
        done.lives += 1
        kinds.update(made.kind for made in life.nodes)
        try:
            lived = live(life, spark)
        except Exception as error:
            done.failed_after = done.lives
            fault = in_words(error)
            shrinking = Shrinking(
                partial(fault_of, spark=spark), SHRINK_SECONDS if spark is None else SHRINK_SECONDS * 3
            )
            smallest, done.reason = shrinking.smallest(life, fault) if shrinks else (life, fault)
            done.failure = smallest.text()
            break
        done.micro_batches += lived.micro_batches
        done.log_commits += lived.log_commits
        done.troubles += lived.troubles
    done.cpu_s, done.kinds = round(time.process_time() - began, 1), sorted(kinds)
    return done


def kept_test(done: Done) -> str:
    """A failing life as a test."""
    indented = "\n".join(f"    {line}" if line else "" for line in done.failure.splitlines())
    reason = "\n".join(f"    {line}" for line in done.reason.splitlines())
    mark, spark = ("fast", "") if done.tier == 1 else ("spark", "spark: Any")
    return f'''"""Seed {done.seed}."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lives.one import live
from tests.lives.story import *  # noqa: F403


@pytest.mark.{mark}
def test_the_life_of_seed_{done.seed}({spark}) -> None:
    """It was found with:

{reason}
    """
    life = {indented.strip()}
    live(life{", spark" if spark else ""})
'''


def results(path: Path = RESULTS) -> list[dict[str, object]]:
    """The lines so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(done: Done) -> None:
    """Print a failing life, and keep it as a test."""
    text = kept_test(done)
    print(text, flush=True)
    (KEPT / f"test_seed_{done.seed}.py").write_text(text, encoding="utf-8")


def by_spark(seeds: Iterator[int], number: int, until: float) -> Iterator[Done]:
    """The outcome of each seed of the second tier, begun until a moment, in one warm session."""
    spark = laptop_session(None, "lives")
    for seed in seeds:
        yield try_seed(seed, number, spark=spark)
        if time.monotonic() >= until:
            return


def tried(seeds: Iterator[int], number: int, until: float, processes: int) -> Iterator[Done]:
    """The outcome of each seed, begun until a moment."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {
            pool.submit(try_seed, seed, number) for _, seed in zip(range(processes), seeds, strict=False)
        }
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()
                if time.monotonic() < until and (seed := next(seeds, None)) is not None:
                    running.add(pool.submit(try_seed, seed, number))


def main(
    minutes: Annotated[float, typer.Option(help="Begin no seed after these.")] = 10,
    seed: Annotated[int | None, typer.Option(help="One seed, which is not written down.")] = None,
    lives: Annotated[int, typer.Option(help="Of each seed.")] = LIVES_A_SEED,
    processes: Annotated[int, typer.Option(help="Processes that live.")] = 2,
    tier: Annotated[int, typer.Option(help="2: what people do to a lake, too.")] = 1,
) -> None:
    """Live many lives."""
    lived = (int(str(line["seed"])) for line in results() if line.get("tier", 1) == tier)
    first = 1 + max(lived, default=0)
    seeds = iter([seed]) if seed is not None else iter(range(first, 1 << 60))
    began, failed, total, work = time.monotonic(), 0, 0, 0
    until = began + 60 * minutes
    alone = processes if seed is None else 1
    outcomes = by_spark(seeds, lives, until) if tier == 2 else tried(seeds, lives, until, alone)
    for done in outcomes:
        done.tier = tier
        done.revision, done.date = revision(), dt.datetime.now(dt.UTC).date().isoformat()
        total, work = total + done.lives, work + done.micro_batches + done.log_commits
        speed = (done.micro_batches + done.log_commits) / max(done.cpu_s, 0.1)
        print(f"seed {done.seed}: {done.lives} lives, {speed:.0f} commits a CPU second", flush=True)
        if done.failure:
            failed += 1
            keep(done)
        if seed is None:
            with RESULTS.open("a", encoding="utf-8") as file:
                line = {name: value for name, value in asdict(done).items() if name != "kinds"}
                file.write(json.dumps(line | {"failure": bool(done.failure)}) + "\n")
    print(f"{total} lives, {work} commits, {failed} seeds with a life that failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
