"""A process that hosts a stream run, as Dagster's run launcher starts one: `python host.py <topic> [hours] [job]`."""

from __future__ import annotations

import sys
from pathlib import Path

from dagster import DagsterInstance


def main(topic: str, rotate_after_hours: str = "12", name: str = "streams") -> None:
    """Run a job of the stream until interrupted; the instance is that of $DAGSTER_HOME."""
    from tests.orchestration.location import definitions_of, stream_config

    job = definitions_of(topic).resolve_job_def(name)
    config = stream_config(rotate_after_hours=float(rotate_after_hours))
    job.execute_in_process(instance=DagsterInstance.get(), run_config=config, raise_on_error=False)


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / "platform"), str(root)]
    main(*sys.argv[1:])
