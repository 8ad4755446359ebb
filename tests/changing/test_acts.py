"""The note of an act, without Spark."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from headrace.changing.acts import Act, ChangedNode, last_act, write_act
from headrace.changing.comparing.compare_generations import Differences
from headrace.lake import small_files
from headrace.lake.paths import Lake

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast


def test_a_note_holds_numbers_and_no_values_of_rows(tmp_path: Path) -> None:
    """An erasure finds keys in tables, and not in notes."""
    lake = Lake(f"file:{tmp_path}")
    found = Differences(3, 2, 0, 1, 1, examples=("before: sensor_id=ann, n=2",))
    act = write_act(lake, Act(1, "none", 2, (ChangedNode("totals", "a", "b", asdict(found)),)))
    assert Differences(**act.nodes[0].differences) == found
    (name,) = small_files.names(lake.changes_applied)
    assert "ann" not in str(small_files.read_json(f"{lake.changes_applied}/{name}"))
    noted = last_act(lake)
    assert noted is not None
    assert str(Differences(**noted.nodes[0].differences)) == str(Differences(3, 2, 0, 1, 1))
