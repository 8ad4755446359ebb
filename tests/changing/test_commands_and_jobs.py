"""`headrace plan`, `apply` and `rollback`, and Dagster's jobs, from their entries to the tables of a lake."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

import headrace as hr
from headrace.changing.plan_changes import stored_node
from headrace.cli import commands
from headrace.lake import small_files
from headrace.orchestration import build_definitions
from tests.changing.living import Living

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dagster]

CODE = """
import headrace as hr

READINGS = hr.Topic("readings", key="sensor STRING", value="value DOUBLE", idle_timeout=None)
stream = READINGS.where("value > {least}")
windows = stream.group_by("sensor").window(hr.tumbling("1 minute"), grace="0 s")
finals = windows.aggregate({aggregates}).suppress(hr.until_window_closes()).named("finals")
totals = stream.group_by("sensor").aggregate({aggregates}).named("totals")
"""


@pytest.fixture
def living(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Living:
    """A lake whose pipeline stands in a module before its change, and in one after it."""
    more = 'n=hr.count(), total=hr.sum("value")'
    for name, least, aggregates in (("before", 0, "n=hr.count()"), ("after", 1, more)):
        (tmp_path / f"pipeline_{name}.py").write_text(CODE.format(least=least, aggregates=aggregates))
    monkeypatch.syspath_prepend(str(tmp_path))
    topic = hr.Topic("readings", key="sensor STRING", value="value DOUBLE", idle_timeout=None)
    return Living(spark, tmp_path / "lake", topic)


def nodes_of(name: str) -> list[Any]:
    module = __import__(f"pipeline_{name}")
    return [module.finals, module.totals]


def test_a_change_is_planned_applied_and_undone_by_commands_and_then_by_jobs(
    living: Living, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = nodes_of("before"), nodes_of("after")

    def command(*words: str, pipeline: str = "after") -> tuple[int, str]:
        """The exit code and what is printed."""
        more = ["--pipeline", f"pipeline_{pipeline}", "--lake", living.lake.root]
        monkeypatch.setattr(sys, "argv", ["headrace", *words, *more])
        with pytest.raises(SystemExit) as ended:
            commands.main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out + told.err

    living.commit((0, "secret-sensor", 1), (0.5, "b", 2))
    living.commit((1, "secret-sensor", 3), (2, "b", 4))
    living.fold(before)
    old = living.tables(before)

    code, told = command("plan")
    assert code == 0
    assert "node finals: rebuilt from the log\n  + total = sum(value, scale=6)" in told
    assert "To rebuild finals, totals: headrace apply." in told
    assert json.loads(command("plan", "--json")[1])["nodes"][0]["outcome"] == "rebuilt"
    assert command("plan", pipeline="before")[1].endswith("Nothing is to be applied.\n")
    code, told = command("apply", "--emit", "some")
    assert (code, "emit: 'some' does not exist" in told) == (2, True)
    code, told = command("apply", "--build-only")
    assert (code, "Run headrace apply: it goes on from here." in told) == (0, True)
    assert living.tables(before) == old, "nothing is swapped yet"
    code, told = command("apply")
    assert code == 0
    assert "node finals: 3 rows became 2: 0 added, 1 removed, 0 changed\n  new columns: total" in told
    assert "before: sensor=secret-sensor" in told, "people at a terminal see examples"
    assert living.tables(after) == living.tables_anew(after)
    assert "Nothing was to be applied." in command("apply")[1]
    code, told = command("rollback")
    assert (code, "finals, totals: the former tables are back." in told) == (0, True)
    assert living.tables(before) == old
    code, told = command("rollback")
    assert (code, "There is nothing to go back to" in told) == (2, True)

    living.commit((4, "secret-sensor", 5))
    living.fold(before)
    defs = build_definitions(after, partitions_start="2023-11-01", lake_root=living.lake.root)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:

        def run(job: str) -> str:
            """What Dagster keeps of a run."""
            result = defs.resolve_job_def(job).execute_in_process(instance=instance)
            return "\n".join(dg.serialize_value(entry) for entry in instance.all_logs(result.run_id))

        assert "rebuilt from the log" in run("plan_changes")
        kept = run("apply_changes")
        assert "new columns: total" in kept
        assert "secret-sensor" not in kept, "rows of data stay out of Dagster"
        assert living.tables(after) == living.tables_anew(after)
        assert "the former tables are back" in run("roll_back_changes")
    assert living.tables(before) == living.tables_anew(before)
    held = stored_node(living.lake, "finals")
    assert held is not None
    assert held.written_by == before[0].fingerprint()
    acts = [small_files.read_bytes(f"{living.lake.changes_applied}/{name}") or b"" for name in _acts(living)]
    assert len(acts) == 2
    assert b"secret-sensor" not in b"".join(acts)


def _acts(living: Living) -> list[str]:
    return small_files.names(living.lake.changes_applied)
