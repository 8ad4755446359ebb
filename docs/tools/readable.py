"""Docstrings for the reference: `In`, `Out`, `Law`, `Raises` and `Source` become paragraphs, and columns become lists."""

from __future__ import annotations

import re

SECTION = re.compile(r"^(In|Out|Law|Raises|Source|Notes|Invariants):\s*")
TERM = re.compile(r"^\s*(`?[\w., ]*\w`?)(?:  +)(\S.*)$")


def readable(docstring: str) -> str:
    """Mark what a docstring of ours says by its layout, in Markdown.

    Out: a section begins a paragraph with its name in bold; a line of a name, two spaces and a text is an item of a list
    """
    lines: list[str] = []
    listed = fenced = False
    for line in docstring.splitlines():
        if line.startswith("    ") and not lines[-1:] and not listed:
            fenced = True
        section = SECTION.match(line)
        rest = line[section.end() :] if section else line
        if section:
            lines += ["", f"**{section[1]}:** "]
            listed = False
        term = None if fenced else TERM.match(rest)
        if term:
            lines += ([] if listed else [""]) + [f"- `{term[1].strip('`')}`: {term[2]}"]
            listed = True
        elif section:
            lines[-1] += rest
        elif listed and line.startswith("  "):
            lines.append("    " + line.strip())
        else:
            listed = False
            lines.append(line)
        fenced = fenced and line != ""
    return "\n".join(lines).strip()
