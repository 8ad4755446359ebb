"""Dead letters sent again: as records of Kafka that name them, once, and only what can be read now."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.corrections import read_corrections
from headrace.local.servers.broker import Broker
from tests.broker.harness import produce, running
from tests.broker.pipeline import Record, minutes, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

NewTopic = Callable[[int], str]


def test_dead_letters_are_shown_by_reason_and_sent_again(
    spark: SparkSession,
    lake: Lake,
    kafka: Broker,
    new_topic: NewTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(2)
    at = reading(0, 1).timestamp_ms
    bad = [Record(0, b"s0", b"{'value': 1.0}", at), Record(1, b"s1", b"\xff", at), Record(1, b"s1", b"{", at)]
    produce(kafka, topic, [reading(0, 0), *bad, reading(0, 2)])
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        monkeypatch.setattr("headrace.cli.console.deployment.session", lambda _: spark)
        monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: [run.node])
        monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)

        def command(*words: str) -> str:
            done = CliRunner().invoke(app, [words[0], topic, *words[1:], "--lake", lake.root])
            assert done.exit_code == 0, (done.output, str(done.exception))
            return done.output

        shown = command("dead-letters", "--examples", "1")
        assert "1 × malformed value: not UTF-8" in shown
        assert "partition 1, offset 0\n    key 's1', value 0xff" in shown
        assert "1 still cannot be read: malformed value: not UTF-8" in command("redrive", "--reason", "UTF-8")
        assert "0 dead letters were sent again." in command("redrive")
        file, long = (
            tmp_path / "corrected.jsonl",
            "x" * 1_200_000,
        )  # more than Kafka's clients take by default
        file.write_text(
            json.dumps(
                {"partition": 0, "offset": 1, "value": {"sensor_id": "s0", "value": 2.0, "more": long}}
            )
            + "\n\n"
            + json.dumps({"partition": 1, "offset": 0, "value_base64": "ew=="})
            + '\n{"partition": 1, "offset": 9, "value": null}\n'
        )
        assert "1 dead letters can be sent again." in command("redrive", "--file", str(file), "--dry-run")
        said = command("redrive", "--file", str(file))
        assert "1 dead letters were sent again." in said
        assert "1 still cannot be read: malformed value: not a JSON object" in said
        assert "Partition 1, offset 9 is no dead letter." in said
        assert "1 had been sent before." in command(
            "redrive", "--file", str(file)
        )  # it need not be in the log yet
        produce(kafka, topic, minutes(1, 0, 3))
        run.catch_up()
        assert "1 had been sent before." in command("redrive", "--file", str(file))
        assert "1 of them stand in the log again" in command("dead-letters")
    again = (
        run.log()
        .where("partition = 0 AND offset = 3")
        .select("kind", "timestamp", "value.value", "headers")
        .first()
    )
    assert again is not None
    assert (again["kind"], again["value"], round(again["timestamp"].timestamp() * 1000)) == (
        "record",
        2.0,
        at,
    )
    assert [(h["key"], json.loads(h["value"])) for h in again["headers"]] == [
        ("headrace-redrive", [topic, 0, 1])
    ]
    fates = run.fates()
    assert (sum(fates.values()), fates["dead_letter"]) == (10, 3)
    assert run.results() == run.recomputed()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2"),
        ('{"partition": 0}', "offset"),
        ('{"partition": "0", "offset": 1}', "whole numbers"),
        ('{"partition": 0, "offset": 1, "valeu": 1}', "there is no field valeu"),
        ('{"partition": 0, "offset": 1, "value_base64": "?"}', "no correction"),
        ('{"partition": 0, "offset": 7}', "a second time"),
        ("7", "no JSON object"),
        ('{"partition": 0, "offset": 1, "timestamp_ms": ""}', "whole numbers"),
        ('{"partition": 0, "offset": 9223372036854775808}', "whole numbers"),
        (
            '{"partition": 0, "offset": 1, "value": {"d": 12345678901234567890.12}}',
            "more digits than are kept",
        ),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "corrected.jsonl"
    file.write_text('{"partition": 0, "offset": 7, "value": null}\n' + line)
    with pytest.raises(TerminalError, match=says):
        read_corrections(file)
