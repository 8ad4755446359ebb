"""Lose a log commit as a foreign program on a local disk would: another commit stands in its place."""

from __future__ import annotations

import json
from pathlib import Path

from headrace import lake as lakes


def overwrite(path: str, version: int) -> None:
    """Put a commit of somebody else, which changes nothing, in the place of one of a table's."""
    commit = {"commitInfo": {"timestamp": 0, "operation": "WRITE", "operationParameters": {}}}
    file = Path(path.removeprefix("file:"), "_delta_log", f"{version:020d}.json")
    file.write_text(json.dumps(commit) + "\n")
    lakes.forget(path)


def versions(path: str, writer: str) -> list[int]:
    """The versions that hold the commits of a writer, the oldest first."""
    table = lakes.open_table(path)
    commits = (commit for commit in table.commits_back(table.version) if commit is not None)
    return sorted(c.version for c in commits if (c.record or {}).get("writer") == writer)


def remove_strays(path: str) -> None:
    """Delete the files of a table's folder that its newest version does not name."""
    named = lakes.open_table(path).snapshot().files
    for file in Path(path.removeprefix("file:")).glob("*.parquet"):
        if file.name not in named:
            file.unlink()
