"""Many random logs over all operators, in several processes: `python -m tests.laws.kernel.many --logs 10000`.

Each log is folded along three cuttings, and all must lead to what the oracle finds. A log that fails is shrunk and printed. It
ends with 1 if one has failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from random import SystemRandom

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.laws.kernel.families import FAMILIES, shares
from tests.laws.kernel.logs import features
from tests.laws.kernel.test_every_operator import check, cuttings

LOGS_AT_ONCE = 100


@dataclass(frozen=True)
class Work:
    """Some logs of one family."""

    family: int
    logs: int
    seed: int


@dataclass(frozen=True)
class Done:
    """How many logs were tried, in how many seconds, and what they had; `failure`: the log that failed, shrunk."""

    family: int
    logs: int
    seconds: float
    features: Counter[str]
    failure: str = ""


def try_logs(work: Work) -> Done:
    """Draw logs and check them."""
    family, began = FAMILIES[work.family], time.process_time()
    logs, had = 0, Counter[str]()

    @seed(work.seed)
    @settings(
        max_examples=work.logs,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def law(data: st.DataObject) -> None:
        nonlocal logs
        subject = data.draw(st.sampled_from(family.subjects))
        world = data.draw(family.worlds)
        cut = data.draw(cuttings())
        logs += 1
        had.update(features(world))
        check(subject, world, cut)

    failure = ""
    try:
        law()
    except Exception as error:
        failure = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return Done(work.family, logs, time.process_time() - began, had, failure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try as many logs as asked for; 1 if one has failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    asked = parser.parse_args(arguments)
    print(f"seed {asked.seed}", flush=True)
    work = [
        Work(number, min(LOGS_AT_ONCE, logs - at), asked.seed + 1_000 * number + at)
        for number, logs in enumerate(shares(asked.logs))
        for at in range(0, logs, LOGS_AT_ONCE)
    ]
    began, found = time.monotonic(), defaultdict[int, list[Done]](list)
    failed = 0
    with get_context("spawn").Pool(asked.processes) as pool:
        for done in pool.imap_unordered(try_logs, work):
            found[done.family].append(done)
            if done.failure:
                failed += 1
                print(f"\n{FAMILIES[done.family].name}:\n{done.failure}\n", flush=True)
    _report(found, time.monotonic() - began)
    return 1 if failed else 0


def _report(found: dict[int, list[Done]], seconds: float) -> None:
    print(f"{'operator':24} {'logs':>7} {'logs/s of one process':>22}")
    total, had = 0, Counter[str]()
    for number, family in enumerate(FAMILIES):
        logs = sum(done.logs for done in found[number])
        spent = sum(done.seconds for done in found[number])
        total += logs
        for done in found[number]:
            had.update(done.features)
        print(f"{family.name:24} {logs:7,} {logs / spent if spent else 0:22.1f}")
    print(f"{'all':24} {total:7,} in {seconds / 60:.1f} minutes; three cuttings of each")
    print("of these logs had " + ", ".join(f"{name} {n / total:.0%}" for name, n in had.most_common()))


if __name__ == "__main__":
    sys.exit(main())
