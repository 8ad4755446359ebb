"""The stream of `headrace dev`: a process that applies what changed, and is then a run of Dagster.

Law: what runs is the description as the files were when the process began. Lines for the person who develops are appended
to the file of notices, which `headrace dev` prints.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.plan_changes import plan_changes
from headrace.lake.paths import Lake
from headrace.local.demos.demo_progress import ShownProgress, standing
from headrace.local.development.dev_errors import run_part
from headrace.local.development.dev_traffic import has_own_traffic, make_topics, without_samples
from headrace.log.site import Site
from headrace.settings import Settings, load_pipeline
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, configured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node
    from headrace.orchestration.events.finality import Unit

FIRST_DAY = "2026-01-01"
SHOWN_EVERY_SECONDS = 1.0
# Somebody watches: a change of state is an event after a second, in place of five.
WATCHED = {"ops": {"host_streams": {"config": {"observe_every_seconds": 5.0}}}}


def main(notices: str, bootstrap: str = "") -> None:
    """Apply, and run until SIGTERM. In: bootstrap  of a broker whose topics are made; empty: they are somebody else's."""
    sys.path.insert(0, str(Path.cwd()))
    with Path(notices).open("a", encoding="utf-8", buffering=1) as file:
        console = Console(file=file, width=200, soft_wrap=True)
        nodes = load_pipeline(Settings().pipeline)
        if bootstrap:
            topics = make_topics(nodes, bootstrap)
            if not has_own_traffic(Settings().pipeline):
                for line in without_samples(topics.values()):
                    console.print(line, markup=False)
        _apply(nodes, console)
        _run(nodes, console)


def _apply(nodes: Sequence[Node], console: Console) -> None:
    lake = Lake(Settings().lake)
    plan = plan_changes(lake, nodes)
    if plan.rebuilt or plan.renamed or plan.rewritten:
        spark = build_session(configured(spark_jars(), lake.root))
        began = time.monotonic()
        applied = ApplyChanges(Site(spark, lake), nodes).run()
        words = [line for line in str(applied).splitlines() if "restart it" not in line]
        console.print("\n".join(words), markup=False)
        console.print(f"applied in {time.monotonic() - began:.0f} s; the stream goes on")


def finals_named(pipeline: str) -> dict[str, Unit]:
    """The final days or hours that the project's own definitions name: Dagster's pages show their assets.

    In: pipeline  a module that `load_pipeline` has loaded, with those of its package
    """
    from dagster import Definitions

    from headrace.orchestration.events.finality import finals_of

    module = sys.modules.get(f"{pipeline}.definitions")
    values = [] if module is None else vars(module).values()
    made = [finals_of(each) for each in values if isinstance(each, Definitions)]
    return {name: unit for each in made for name, unit in each.items()}


def _run(nodes: Sequence[Node], console: Console) -> None:
    from dagster import DagsterInstance

    from headrace.orchestration import build_definitions

    instance = DagsterInstance.get()
    finals = finals_named(Settings().pipeline)
    job = build_definitions(nodes, partitions_start=FIRST_DAY, finals=finals).resolve_job_def("streams")

    def show() -> None:
        shown = ShownProgress(console)
        while True:
            time.sleep(SHOWN_EVERY_SECONDS)
            now = standing(instance)
            if now.states:
                shown.show(now)

    threading.Thread(target=show, name="progress", daemon=True).start()
    job.execute_in_process(instance=instance, run_config=WATCHED, raise_on_error=False)


if __name__ == "__main__":
    run_part(main, *sys.argv[1:])
