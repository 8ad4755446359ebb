"""Hooks of mkdocs: pages that lie outside of docs/, generated pages, and links that work on GitHub and on the site."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "platform")]

from docs.tools import expressions, reference  # noqa: E402

# Pages of the site whose file is not in docs/.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "deploy/README.md": "deploy.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated, and those that lie outside of docs/."""
    for origin, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / origin)))
    made = reference.pages() | {"reference/expressions.md": reference.MADE + expressions.page()}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages of the site; a file that is no page of it stays as text."""
    origins = {src: origin for origin, src in OUTSIDE.items()}
    origin = origins.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = FENCE.split(markdown.replace("```python notest", "```python"))
    return "".join(
        part if part.startswith("```") else LINK.sub(lambda m: _link(m, origin, page, files), part)
        for part in parts
    )


def _link(match: re.Match[str], origin: str, page: Page, files: Files) -> str:
    picture, text, target = match.groups()
    if re.match(r"[a-z]+:|#", target):
        return match[0]
    path, mark, anchor = target.partition("#")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    uri = OUTSIDE.get(place, place.removeprefix("docs/"))
    if files.get_file_from_path(uri) is None and (ROOT / place).exists():
        return f"{text} (`{place}`)"
    relative = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
    return f"{picture}[{text}]({relative}{mark}{anchor})"
