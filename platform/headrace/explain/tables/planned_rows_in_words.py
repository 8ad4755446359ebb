"""The rows of a plan in words: for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.explain.cause_in_words import values_in_words
from headrace.explain.graces.other_grace_in_words import lines_of_row

if TYPE_CHECKING:
    from headrace.explain.tables.compared_rows import DifferingRow
    from headrace.explain.tables.planned_rows import NodeRows, PlannedRows


def lines_of(planned: PlannedRows) -> Iterator[str]:
    """The lines of each node."""
    for node in planned.nodes:
        yield f"rows of {node.node}: {_in_short(planned, node)}"
        yield from (f"  {line}" for line in _columns(node))
        for each in node.rows.differing if node.rows else ():
            yield from (f"    {line}" for line in lines_of_row(each, "before", "after "))
    if not planned.nodes:
        yield "No row of any node changes."


def markdown_of(planned: PlannedRows) -> str:
    """A table of the nodes, and examples of each."""
    lines = ["### Rows that this change alters", "", planned.plan.summary, ""]
    if not planned.nodes:
        return "\n".join([*lines, "No row of any node changes.", ""])
    lines += ["| node | added | removed | changed | rows after |", "|---|---:|---:|---:|---:|"]
    for node in planned.nodes:
        of = node.rows
        figures = (of.added, of.removed, of.changed, of.rows_after) if of else ()
        cells = " | ".join(f"{each:,}" for each in figures) if of else f"{node.reason} | | |"
        lines.append(f"| `{node.node}` ({node.outcome}) | {cells} |")
    for node in planned.nodes:
        examples = [*_columns(node), *(_example(each) for each in (node.rows.differing if node.rows else ()))]
        if examples:
            fence = _fence("\n".join(examples))
            lines += ["", f"<details><summary>{node.node}</summary>", "", f"{fence}diff"]
            lines += [*examples, fence, "", "</details>"]
    if planned.days is not None:
        lines += ["", f"Windows are compared for the last {planned.days} days."]
    if planned.sample is not None:
        lines += ["", f"The rows of {planned.sample:,} keys at most of each node are compared."]
    return "\n".join([*lines, ""])


def _fence(text: str) -> str:
    """The fence of a block of code that the text, which holds values of records, does not end."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _in_short(planned: PlannedRows, node: NodeRows) -> str:
    of = node.rows
    if of is None:
        return f"not known: {node.reason}"
    stretch = f", of the last {planned.days} days" if node.days else ""
    stretch += "" if node.keys is None else f", of {len(node.keys):,} key{'s' if len(node.keys) > 1 else ''}"
    return (
        f"{of.added:,} added, {of.removed:,} removed, {of.changed:,} changed "
        f"({of.rows_before:,} rows become {of.rows_after:,}{stretch})"
    )


def _columns(node: NodeRows) -> Iterator[str]:
    if node.columns_added:
        yield f"new columns: {', '.join(node.columns_added)}"
    if node.columns_removed:
        yield f"columns that are gone: {', '.join(node.columns_removed)}"


def _example(row: DifferingRow) -> str:
    sides = (("-", row.before), ("+", row.after))
    return "\n".join(f"{mark} {values_in_words(of)}" for mark, of in sides if of is not None)
