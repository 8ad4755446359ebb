"""A pipeline that runs once on this machine, as `make demo` of a project: an empty table says why it is empty."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import headrace as hr
from headrace.local import once
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.testing import TestDriver

views = hr.Topic("views", key="user STRING", value="page STRING")
finals = (
    views.group_by("page")
    .window(hr.tumbling("1 hour"), grace="1 hour")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("finals")
)
rare = views.where("page = 'none'").named("rare")
every_view = views.where("true").named("every_view")


REASON = "None of 3 records is left: 3 are filtered by its steps (headrace records rare filtered)."


@pytest.mark.fast
def test_an_empty_table_has_a_sentence_and_another_one_has_none() -> None:
    driver = TestDriver([finals, rare, every_view])
    for minute in range(3):
        driver.pipe("views", key="ann", value={"page": "/"}, timestamp_ms=60_000 * minute)
    driver.cut()
    facts = LakeFacts(driver._lake)
    window = once.sentence_if_empty(finals, facts) or ""
    assert window.startswith(
        "finals has no rows: 3 records count. Stream time is held by partition 0 of views"
    )
    assert once.sentence_if_empty(rare, facts) == f"rare has no rows: {REASON}"
    assert once.sentence_if_empty(every_view, facts) is None
    driver.close()


@pytest.mark.spark
@pytest.mark.broker
def test_a_table_without_a_row_says_why_it_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(once, "Console", lambda: Console(file=shown, width=200))
    records = [("views", "ann", {"page": "/"}, 60_000 * minute) for minute in range(3)]
    assert once.run_once(
        [finals, rare, every_view], lambda start_ms: [(*r[:3], start_ms + r[3]) for r in records]
    )
    lines = shown.getvalue().splitlines()
    (window,) = (line for line in lines if line.startswith("finals has no rows: "))
    assert window.startswith("finals has no rows: 3 records count. Stream time is held by partition ")
    assert "of views" in window
    assert f"rare has no rows: {REASON}" in lines
    assert not any(line.startswith("every_view has no rows") for line in lines)
    assert "Recomputed from the log: the same tables." in lines
