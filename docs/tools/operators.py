"""The operators' part of `docs/operators.md`, made of their docstrings. `python -m docs.tools.operators` writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from headrace.operators.registry import KINDS

PAGE = Path(__file__).resolve().parents[1] / "operators.md"
BEGIN, END = "<!-- operators: begin -->", "<!-- operators: end -->"
PART = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
SECTION = re.compile(r"^(Written|Law|Source|Guide)(?: \(([^)]+)\))?:\s*")
CASE = re.compile(r"^  (\S.*?)  +(\S.*)$")
NUMBER = re.compile(r"L\d+")


def page(written: str) -> str:
    """The page with the part of the operators made again.

    In: written  the page as it stands
    """
    return PART.sub(lambda _: f"{BEGIN}\n\n{''.join(_shown())}{END}", written)


def operators() -> dict[str, type]:
    """The class of each operator by its folder, in the order of the registry."""
    return {
        folder: getattr(import_module(f"headrace.operators.{folder}.operator"), name)
        for folder, name in KINDS.values()
    }


def sections(docstring: str) -> dict[str, tuple[str, list[str]]]:
    """The sections of an operator's docstring: numbers of laws, and lines. The first one, before any title, is `Out`."""
    parts: dict[str, tuple[str, list[str]]] = {"Out": ("", [])}
    title = "Out"
    for line in docstring.splitlines():
        begins = SECTION.match(line)
        if begins:
            title = begins[1]
            parts[title] = (begins[2] or "", [])
        parts[title][1].append(line[begins.end() :] if begins else line)
    return parts


def _shown() -> Iterator[str]:
    for folder, operator in operators().items():
        parts = sections(inspect.getdoc(operator) or "")
        written, guide = _text(parts["Written"][1]), _text(parts["Guide"][1])
        numbers, law = parts["Law"]
        yield f"### {written}\n\n{_text(parts['Out'][1])}\n\n"
        yield _linked(f"**Law{f' ({numbers})' if numbers else ''}.**{_law(law)}\n\n")
        yield f"**Source.** {_text(parts['Source'][1])}\n\n"
        yield f"**Guide:** [{guide}](guides/{guide}.md). **Code:** `headrace/operators/{folder}`.\n\n"


def _text(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def _linked(law: str) -> str:
    return NUMBER.sub(r"[\g<0>](formalism.md#laws)", law)


def _law(lines: list[str]) -> str:
    """Sentences; and an item of a list for each line of a case, two spaces and its law."""
    text: list[str] = []
    items: list[str] = []
    after: list[str] = []
    for line in lines:
        case = CASE.match(line)
        if case:
            items.append(f"- {case[1]}: {case[2]}")
        elif items and line.startswith("   "):
            items[-1] += f" {line.strip()}"
        else:
            (after if items else text).append(line)
    listed = "\n\n" + "\n".join(items) if items else ""
    return " ".join(["", _text(text)]).rstrip() + listed + (f"\n\n{_text(after)}" if after else "")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
