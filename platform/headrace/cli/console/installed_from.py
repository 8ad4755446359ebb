"""The source of the running Headrace, as pip takes it: an index, a wheel, a checkout or a repository."""

from __future__ import annotations

import json
from importlib.metadata import Distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "headrace"


def installed_from(distribution: Distribution | None = None) -> str | None:
    """One argument of `pip install` that installs the same Headrace again; None: its name and version do.

    Source: PEP 610, `direct_url.json`.
    """
    described = (distribution or Distribution.from_name(NAME)).read_text("direct_url.json")
    if described is None:
        return None
    facts = json.loads(described)
    url = facts["url"]
    if "vcs_info" in facts:
        return f"{NAME} @ {facts['vcs_info']['vcs']}+{url}@{facts['vcs_info']['commit_id']}"
    parts = urlsplit(url)
    if parts.scheme != "file":
        return f"{NAME} @ {url}"
    path = Path(unquote(parts.path))
    if facts.get("dir_info", {}).get("editable"):
        return f"--editable={path}"
    return str(path)
