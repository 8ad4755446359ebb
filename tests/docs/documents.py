"""The documents as tests see them: files, code blocks, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OWN_PAGES = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
DOCUMENTS = sorted([*OWN_PAGES, *(ROOT / "docs").rglob("*.md")])
PAGES_WITH_CODE = ("README.md", "docs/tutorial.md", "docs/comparison.md")
WITH_CODE = [*(ROOT / page for page in PAGES_WITH_CODE), *sorted((ROOT / "docs" / "guides").glob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A Python block: its code, its first line in the document, and whether it needs what a test has not."""

    code: str
    line: int
    notest: bool


def name(path: Path) -> str:
    """The document's path as people write it."""
    return path.relative_to(ROOT).as_posix()


def python_blocks(path: Path) -> list[Block]:
    """The blocks marked `python`, in order; `python notest` marks those that are not executed."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(match["body"], text.count("\n", 0, match.start("body")) + 1, "notest" in match["info"].split())
        for match in FENCE.finditer(text)
        if match["info"].split()[:1] == ["python"]
    ]


def compiled(block: Block, path: Path) -> Any:
    """The block's code; errors in it name the document's own lines."""
    return compile("\n" * (block.line - 1) + block.code, name(path), "exec", dont_inherit=True)


def prose(path: Path) -> str:
    """The document without its code blocks."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def links(path: Path) -> list[str]:
    """The targets of the document's links."""
    return [match["target"] for match in LINK.finditer(prose(path))]


def anchor(heading: str) -> str:
    """The anchor that a heading gets, as on GitHub."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings."""
    return {anchor(match[1]) for match in re.finditer(r"^#+ +(.+)$", prose(path), re.MULTILINE)}
