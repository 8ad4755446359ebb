"""Questions of people on call: one search of the site, in a browser, finds the page with the answer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Page, sync_playwright

from docs.tools import reference
from tests.docs.documents import ROOT
from tests.waiting import PATIENCE_S

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI"),
        reason="There is no Chromium: install one, or name it in CHROMIUM. CI has one.",
    ),
]
META = "document.querySelector('.md-search-result__meta').innerText"

QUESTIONS = {
    "iceberg": "guides/iceberg.html",
    "oauthbearer": "guides/on-call.html",
    "grafana": "guides/on-call.html",
    "exactly once": "guides/on-call.html",
    "restore": "guides/backups.html",
    "upgrade": "guides/on-call.html",
    "dead letters": "guides/on-call.html",
    "late or lost": "concepts.html",
    "rollback": "guides/on-call.html",
    "out of memory": "guides/on-call.html",
}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and prints nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    subprocess.run(["make", "--silent", "docs"], cwd=ROOT, check=True)
    handler = partial(Quiet, directory=str(ROOT / ".headrace" / "site"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page(site: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        patience_ms = PATIENCE_S * 1000
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=patience_ms
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(patience_ms)
        page.goto(f"{site}/index.html")
        page.get_by_role("textbox", name="Search").click()
        yield page
        browser.close()


def found(page: Page, words: str) -> list[str]:
    """The pages of the results, the best first."""
    search = page.get_by_role("textbox", name="Search")
    search.fill("")
    search.press("Backspace")  # the site looks at each key
    page.wait_for_function(f"{META}.includes('Type')")
    search.fill(words)
    search.press("End")
    page.wait_for_function(f"{META}.includes('match')")
    links: list[str] = page.locator(".md-search-result__link").evaluate_all(
        "all => all.map(each => each.href)"
    )
    return list(dict.fromkeys(re.sub(r"^https?://[^/]+/|[?#].*$", "", link) for link in links))


@pytest.mark.parametrize("words", QUESTIONS)
def test_one_search_finds_the_page_with_the_answer(page: Page, words: str) -> None:
    assert found(page, words)[:1] == [QUESTIONS[words]]


def test_each_figure_that_the_page_for_people_on_call_draws_is_served() -> None:
    drawn = re.findall(r"headrace_[a-z_]+", (ROOT / "docs/guides/on-call.md").read_text(encoding="utf-8"))
    assert drawn
    assert not [name for name in drawn if f"`{name}`" not in reference.metrics()]
