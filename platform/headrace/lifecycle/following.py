"""Which nodes of a lake follow from a log: by the rules by which each was last written, whatever pipeline it is of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace.lake import small_files

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.lake.paths import Lake


def nodes_following(lake: Lake, logs: Collection[str], but: Collection[str] = ()) -> list[str]:
    """The nodes that read a log, directly or through nodes; each behind those that it reads.

    In: logs  topics by name; of what a node gives `<node>@`, whatever its generation
        but   nodes that are left out, and by which nothing follows
    """
    rules = {
        name: json.dumps(said["rules"])
        for name in small_files.names(f"{lake.root}/tables")
        if name not in but and (said := small_files.read_json(lake.description(name))) is not None
    }
    found: dict[str, None] = {}
    read = [f'"topic": "{log}' + ("" if log.endswith("@") else '"') for log in logs]
    while read:
        new = [
            name for name, text in rules.items() if name not in found and any(each in text for each in read)
        ]
        found |= dict.fromkeys(new)
        read = [f'"topic": "{name}@' for name in new]
    return [*found]
