"""One life, killed where a process meets others: the tables are the oracle's, and the sinks hold each row once.

`tests/lives` dies at each step of a commit without a process of its own; `make test-long` kills at each, and `make faults` lives
many more lives, at every step of every operator and sink, at random moments.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lake.paths import Lake
from headrace.local.postgres import Postgres
from headrace.local.servers.broker import Broker
from tests.faults.lives import Life, Place
from tests.faults.stream import Order

pytestmark = [pytest.mark.broker, pytest.mark.slow]

READINGS = "log/{}-readings"
# Where each process dies, and at which time that it gets there. The log's first commit records where it starts; three more take
# a portion of the traffic. How many micro-batches a node makes of them depends on the machine, so it dies in the first.
KILLS = [
    (READINGS, "before log commit", 3),
    ("stream/final_stream", "before outputs", 1),
    (READINGS, "after log commit", 3),
    ("stream/joined_stream", "after outputs", 1),
    ("stream/joined_stream", "after outputs", 1),  # while it repeats what the one before had written
    ("kafka-{}-results", "after delivery", 1),
    ("postgres-{}_batches", "before delivery", 1),
    ("stream/batches_stream", "after state", 1),
]
# Between the tables of a node, and between a store and the node that has told it; each once.
MET = [kill for kill in dict.fromkeys(KILLS) if kill[1] in ("after outputs", "after delivery")]
ON_S3 = [(READINGS, "after log commit", 3)]


def lived(place: Place, kills: list[tuple[str, str, int]], readings: int) -> None:
    """Die at each of these steps, with new traffic before it."""
    with Life(place, seed=34) as life:
        for asset, step, number in kills:
            life.traffic(readings)
            wanted = asset.format(place.prefix), step
            assert life.killed(Order(*wanted, number)) == ": ".join(wanted)
        life.traffic(readings)
        assert life.drained().words == []


@pytest.mark.postgres
@pytest.mark.parametrize(
    "kills", [MET, pytest.param(KILLS, marks=pytest.mark.long)], ids=["few", "every step"]
)
def test_killed_at_steps_of_commits_a_pipeline_leaves_what_the_oracle_finds(
    kafka: Broker, postgres: Postgres, lake: Lake, tmp_path: Path, kills: list[tuple[str, str, int]]
) -> None:
    names = ("final", "totals", "batches", "joined")
    place = Place(kafka.bootstrap_servers, lake.root, f"killed_{len(kills)}", tmp_path, names)
    lived(place, kills, readings=60)


@pytest.mark.long
@pytest.mark.s3
def test_with_its_lake_on_s3_a_killed_pipeline_leaves_what_the_oracle_finds(
    kafka: Broker, s3_root: str, tmp_path: Path
) -> None:
    place = Place(kafka.bootstrap_servers, s3_root, "killed_on_s3", tmp_path, ("sessions", "latest"))
    lived(place, ON_S3, readings=60)
