"""How long a stream stands still when its run is killed and another one stands by in the same Dagster.

`python -m benchmarks.standby --trials 5`. A real broker, an instance of Dagster, and two runs in processes of their own; a
trigger of a second. In each trial the run that works is killed while nothing is to be done, and records are sent at once.
Measured is the time until the other run has committed the log, and the node's state.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics
from tests.broker.harness import produce
from tests.broker.pipeline import reading
from tests.orchestration.location import STANDBY
from tests.orchestration.standby import RUNS, has_folded, seconds_without, standing_by
from tests.orchestration.world import new_world

TOPIC = "readings"


def main(trials: Annotated[int, typer.Option(help="How often a run is killed.")] = 5) -> None:
    """Measure and print each trial."""
    os.environ[STANDBY] = "true"
    seconds: list[float] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker(folder / "kafka"))
        create_topics(broker.bootstrap_servers, {TOPIC: 2})
        world = stack.enter_context(new_world(folder, broker.bootstrap_servers, TOPIC))
        produce(broker, TOPIC, [reading(p, m) for m in range(10) for p in (0, 1)])
        active = stack.enter_context(world.stream("12", RUNS[0]))
        active.until(lambda: has_folded(world, 20))
        for trial in range(trials):
            other = stack.enter_context(standing_by(world, RUNS[(trial + 1) % 2]))
            seconds.append(seconds_without(world, broker, active, other, 10 + 5 * trial))
            print(f"trial {trial + 1}: {seconds[-1]:.1f} s", flush=True)
            active = other
            active.until(lambda: has_folded(world, 10))
    print(f"median {statistics.median(seconds):.1f} s, highest {max(seconds):.1f} s")


if __name__ == "__main__":
    typer.run(main)
