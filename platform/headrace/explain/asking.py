"""The commands that ask why, as reports and other commands print them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any


def why(node: str, values: Mapping[str, Any]) -> str:
    """The command that explains the rows of a node that have some values."""
    return f"headrace why {shlex.join([node, *(f'{name}={value}' for name, value in values.items())])}"


def why_not(topic: str, partition: int, offset: int) -> str:
    """The command that says what has become of a record; a row of a node is named by the node."""
    return f"headrace why-not {topic.partition('@')[0]} {partition} {offset}"
