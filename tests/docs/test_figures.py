"""Figures on pages are those of `benchmarks/RESULTS.md`: a page that says a former one fails here."""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.documents import ROOT, prose

pytestmark = pytest.mark.fast
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
RESULTS = set(NUMBER.findall((ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")))
MEASURED = re.compile(
    rf"({NUMBER.pattern})(?= (?:records/s|CPU s per million|ms median|ms p99|s median|s p99))"
)


@pytest.mark.parametrize("page", ["concepts", "scaling", "guides/tables"])
def test_a_page_has_the_figures_of_the_results(page: str) -> None:
    figures = set(MEASURED.findall(prose(ROOT / "docs" / f"{page}.md")))
    assert figures
    assert not figures - RESULTS


def test_the_first_page_has_the_figures_of_the_results() -> None:
    section = prose(ROOT / "README.md").split("\n## How fast\n")[1].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    assert len(table) == 6
    assert not set(NUMBER.findall("\n".join(table))) - RESULTS


def test_the_pictures_have_the_figures_of_the_results() -> None:
    jobs = json.loads((ROOT / "docs" / "compared.json").read_text(encoding="utf-8"))
    speeds = [side["records/s"] for job in jobs.values() for side in job["sides"].values()]
    assert not {f"{round(speed, -2):,}" for speed in speeds} - RESULTS
