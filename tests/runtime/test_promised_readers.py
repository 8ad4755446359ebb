"""A node promises its readers no more than it has folded, whatever comes into its logs meanwhile. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import headrace as hr
from headrace.lake.paths import Lake
from headrace.log.decisions.promise import write_promise
from headrace.writing import node_runner
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

LEFT = hr.Topic("left", key="k STRING", value="k STRING, v BIGINT")
RIGHT = hr.Topic("right", key="k STRING", value="k STRING, w BIGINT")
BOTH = LEFT.table().join(RIGHT.table(), on="k", how="left").named("both")


class Folded:
    """A node that has folded its logs as far as a test says."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **upto_ms: int) -> None:
        self.lake, self.ends, self.promised = Lake(f"file:{folder}"), dict(upto_ms), list[int]()
        patch.setattr(node_runner, "frontier_ms", lambda lake, topic: self.ends[topic.name])
        patch.setattr(node_runner, "first_commit_ms", lambda uri, after_ms, through_ms: through_ms)
        self.runner = NodeRunner.__new__(NodeRunner)
        self.runner._spark, self.runner._lake = cast("Any", None), self.lake
        self.runner.node, self.runner._bounds = BOTH, lambda: dict.fromkeys(upto_ms, 100)
        self.runner.progress = cast("Any", SimpleNamespace(upto_ms=upto_ms))
        self.runner.log = cast("Any", SimpleNamespace(promise=self.promised.append))

    def promise(self) -> int:
        self.runner._promise_readers()
        return self.promised[-1]


def test_a_commit_that_comes_after_the_last_look_is_not_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = Folded(tmp_path, monkeypatch, left=100, right=100)
    assert folded.promise() == 100
    folded.ends["left"] = 130
    assert folded.promise() == 100, "the other log may have rows from 101 on"
    write_promise(folded.lake.log("right"), 150)
    assert folded.promise() == 129, "its rows of that commit are still to come, and lie at 130"


def test_a_node_that_rests_promises_what_its_logs_promised_before_their_next_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its readers have read as far, so an erasure folds them as far aside, too."""
    folded = Folded(tmp_path, monkeypatch, left=100, right=100)
    for topic in ("left", "right"):
        write_promise(folded.lake.log(topic), 150)
    assert folded.promise() == 150
    folded.ends.update(left=170, right=190)
    assert folded.promise() == 169


def test_logs_that_are_folded_to_their_ends_hand_on_their_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a rebuild stops at its tables: whoever read these in one order may have read as far."""
    folded = Folded(tmp_path, monkeypatch, left=90, right=100)
    write_promise(folded.lake.log("left"), 150)
    assert folded.promise() == 100
    write_promise(folded.lake.log("right"), 140)
    assert folded.promise() == 140
