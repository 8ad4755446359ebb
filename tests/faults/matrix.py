"""The matrix of faults: `make faults`. It goes on where the last call stopped, until each fault has come as often as wanted.

    make faults                                          all that is still missing
    make faults ARGS="--only SIGKILL --minutes 30"       one fault, for half an hour
    make faults ARGS="--only SIGKILL --seed 7 --trials 1 --storage s3"
    make faults ARGS=--table                             the table in docs/reliability.md, from tests/faults/results.jsonl

Each trial is one life of a lake with real servers. It ends with a verdict, and with a line in `tests/faults/results.jsonl`.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from random import SystemRandom
from typing import Annotated

import typer

from tests.faults import results
from tests.faults.results import BROKEN, HELD, Line, revision
from tests.faults.servers import FILE, S3, Servers
from tests.faults.trials import FAULTS, Fault, Outcome, Setting
from tests.faults.verdict import Verdict

SEEDS = 1_000_000


def tried(servers: Servers, name: str, fault: Fault, storage: str, seed: int, times: int | None) -> Line:
    """Live one life, and keep what was found."""
    print(f"{name}, lake on {storage}, seed {seed}", flush=True)
    setting = Setting(servers, storage, seed, lambda words: print(f"  {words}", flush=True), times)
    try:
        outcome = fault.trial(setting)
    except (
        AssertionError
    ) as error:  # it never came to a verdict: a stream did not go on, or not as it is promised
        outcome = Outcome(Verdict(words=[f"{type(error).__name__}: {str(error)[-2000:]}"]), 0)
    verdict = outcome.verdict
    line = Line(
        name,
        storage,
        seed,
        outcome.times,
        HELD if verdict.holds else BROKEN,
        verdict.records,
        verdict.rows,
        verdict.lost,
        verdict.doubled,
        verdict.unaccounted,
        [round(seconds, 1) for seconds in outcome.recoveries],
        revision(),
        dt.datetime.now(dt.UTC).date().isoformat(),
        verdict.words,
    )
    results.append(line)
    print(
        f"  {line.outcome}: {line.records:,} records, {line.rows:,} rows compared, {line.words}", flush=True
    )
    return line


def main(
    only: Annotated[list[str] | None, typer.Option(help="A fault of the table; may be given again.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the first trial; the next has the next number.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Lives, in place of what is still missing.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin no trial after these.")] = None,
    times: Annotated[
        int | None, typer.Option(min=1, help="How often a fault comes in one life; a short life costs less.")
    ] = None,
    storage: Annotated[list[str] | None, typer.Option(help="file or s3; may be given again.")] = None,
    table: Annotated[bool, typer.Option("--table", help="Write the table, and try nothing.")] = False,
) -> None:
    """Try the faults of the matrix against real servers."""
    if table:
        results.write_table({name: fault.promise for name, fault in FAULTS.items()})
        return
    unknown = sorted({*(only or ())} - {*FAULTS}) + sorted({*(storage or ())} - {FILE, S3})
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]} is not known; faults are {', '.join(FAULTS)}; storage is file or s3"
        )
    seed = SystemRandom().randrange(SEEDS) if seed is None else seed
    print(f"seed {seed}", flush=True)
    until, broken = time.monotonic() + 60 * (minutes if minutes is not None else 1e6), 0
    with Servers() as servers:
        os.environ["HEADRACE_POSTGRES_DSN"] = servers.postgres.dsn
        for name in only or FAULTS:
            fault, lived = FAULTS[name], 0
            while time.monotonic() < until:
                done = results.times(results.kept(), name)
                if lived == trials if trials is not None else done >= fault.wanted:
                    break
                print(f"{name}: {done:,} of {fault.wanted:,}", flush=True)
                places = [each for each in fault.storages if each in (storage or fault.storages)]
                if not places:
                    raise typer.BadParameter(f"{name} is tried with a lake on {fault.storages[0]} alone")
                line = tried(servers, name, fault, places[lived % len(places)], seed, times)
                seed, lived, broken = seed + 1, lived + 1, broken + (line.outcome == BROKEN)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    typer.run(main)
