"""A poll looks at the lake only for nodes that do not run. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.streams import stream_runtime
from headrace.streams.stream_runtime import StreamRuntime

pytestmark = pytest.mark.fast


def test_logs_are_looked_at_for_nodes_that_do_not_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, kept = list[str](), list[str]()

    def version(lake: object, topic: str) -> int:
        looked.append(topic)
        return {"there": 0, "missing": -1}.get(topic, 0)

    def stream(name: str, *, running: bool) -> Any:
        return SimpleNamespace(
            name=name,
            running=running,
            node=SimpleNamespace(topics=[name]),
            find_nodes=lambda: True,
            keep_running=lambda: kept.append(name),
        )

    monkeypatch.setattr(stream_runtime, "log_version", version)
    runtime: Any = StreamRuntime.__new__(StreamRuntime)
    runtime._lake = None
    runtime._meeting = runtime._upkeep = SimpleNamespace(keep=lambda: None)
    runtime._follow_wishes = lambda: True
    runtime._draining, runtime._logs = False, []
    runtime._streams = [
        stream("runs", running=True),
        stream("there", running=False),
        stream("missing", running=False),
    ]
    runtime._keep_running()
    assert (looked, kept) == (["there", "missing"], ["runs", "there"])
