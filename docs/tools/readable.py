"""Docstrings for the reference: `In`, `Out`, `Law`, `Raises` and `Source` become paragraphs, and columns become lists."""

from __future__ import annotations

import re

TITLES = "In|Out|Law|Raises|Source|Notes|Invariants"
SECTION = re.compile(rf"^({TITLES}):\s*")
# A parameter in backticks before its text: at the start of a section, of a line, or after a sentence of another one.
NAMED = re.compile(r"(?:^|(?<=[;.] )|\n)((?:`[\w*]+`(?:, )?)+): ")
TERM = re.compile(r"^\s*(`?[\w., ]*\w`?)(?:  +)(\S.*)$")
INPUTS = re.compile(rf"^In: (`.*?)(?=\n(?:{TITLES}):|\n\n|\Z)", re.DOTALL | re.MULTILINE)


def readable(docstring: str) -> str:
    """Mark what a docstring of ours says by its layout, in Markdown.

    Out: a section begins a paragraph with its name in bold; a line of a name, two spaces and a text is an item of a list
    """
    lines: list[str] = []
    listed = fenced = False
    for line in INPUTS.sub(_as_terms, docstring).splitlines():
        if line.startswith("    ") and not lines[-1:] and not listed:
            fenced = True
        section = SECTION.match(line)
        rest = line[section.end() :] if section else line
        if section:
            lines += ["", f"**{section[1]}:** "]
            listed = False
        term = None if fenced else TERM.match(rest)
        if term:
            names = ", ".join(f"`{name}`" for name in term[1].strip("`").split(", "))
            lines += ([] if listed else [""]) + [f"- {names}: {term[2]}"]
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


def _as_terms(match: re.Match[str]) -> str:
    """Inputs that are named in backticks, as a line each."""
    parts = NAMED.split(match[1])
    terms = (
        f"{name.replace('`', '')}  {' '.join(text.split()).rstrip(';')}"
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    )
    return "In:  " + "\n     ".join(terms)
