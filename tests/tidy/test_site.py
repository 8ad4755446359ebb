"""Each page stands in the navigation of the site, and each entry of it is a page; `make docs` fails otherwise."""

from __future__ import annotations

import re

import pytest

from tests.docs.documents import ROOT

pytestmark = pytest.mark.fast
# Pages whose file is elsewhere, or that are made of the code: see docs/tools.
OUTSIDE = {"index.md", "changelog.md", "benchmarks.md", "deploy.md", "security.md", "contributing.md"}


def test_the_navigation_has_every_page_once() -> None:
    listed = re.findall(
        r"(?:: |- )(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    made = {page for page in listed if page.startswith("reference/")}
    assert len(listed) == len(set(listed))
    assert set(listed) - OUTSIDE - made == pages, "list it under nav in mkdocs.yml"


def test_the_site_is_built_with_the_versions_that_developers_have() -> None:
    def locked(name: str) -> dict[str, str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))

    developers, site = locked("requirements.lock"), locked("docs/requirements.lock")
    assert site.keys() & developers.keys()
    assert not [name for name in site if developers.get(name, site[name]) != site[name]], "run `make lock`"
