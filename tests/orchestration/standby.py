"""Two stream runs of one pipeline in Dagster: kill the one that has the tables, and time how soon the other goes on."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.lake import open_table
from tests.broker.harness import produce
from tests.broker.pipeline import reading
from tests.orchestration.world import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.local.servers.broker import Broker
    from tests.orchestration.world import StreamProcess, World

RUNS = ("streams", "streams_standby")
LOOK_SECONDS = 0.05


@contextmanager
def standing_by(world: World, name: str) -> Iterator[StreamProcess]:
    """A process with a run that waits for the other one; entered once it does."""
    before = {run.run_id for run in world.instance.get_runs()}

    def waits() -> bool:
        new = [run for run in world.instance.get_runs() if run.run_id not in before]
        said = [entry.message for run in new for entry in world.instance.all_logs(run.run_id)]
        return any("Stands by for log/" in message for message in said)

    with world.stream("12", name) as process:
        process.until(waits)
        yield process


def has_folded(world: World, records: int) -> bool:
    """True if the asset's page says that a run has folded so many records."""
    seen = world.observations(STREAM)
    return bool(seen) and seen[0]["state"] == "running" and seen[0]["rows_total"] >= records


def seconds_without(
    world: World, broker: Broker, active: StreamProcess, other: StreamProcess, minute: int
) -> float:
    """Kill the run that is active, and send records; the time until the other has committed the first of them."""
    state, log = (
        open_table(path) for path in (world.lake.state("reading_counts"), world.lake.log(world.topic))
    )
    versions = [state.version, log.version]  # read before: the other may be there within the second
    active.process.send_signal(signal.SIGKILL)
    died = time.monotonic()
    produce(broker, world.topic, [reading(p, m) for m in range(minute, minute + 5) for p in (0, 1)])
    # The first commit of a new writer is its fence.
    while state.version < versions[0] + 2 or log.version < versions[1] + 2:
        assert other.process.poll() is None, other.said.read_text()[-3000:]
        assert time.monotonic() < died + 120, other.said.read_text()[-3000:]
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - died
