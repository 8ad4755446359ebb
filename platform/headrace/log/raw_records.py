"""Logs that keep the bytes of their records: a log so kept is always that of its topic's description.

Law: nothing is appended to such a log by another description; `headrace apply` makes it anew first. If a log began
without the bytes, its older rows cannot be made anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.sequence.log_state import LogState

RAW_COLUMN = "raw_timestamp"


def decoded_by(topic: Topic) -> Mapping[str, Any] | None:
    """How a topic's records are read, as a log says it; None: the topic does not keep the bytes."""
    found: Mapping[str, Any] | None = json.loads(json.dumps(topic.rules())).get("decoded")
    return found


def keeping_raw(state: LogState, topic: Topic) -> LogState:
    """The state of a log that is opened to append to it.

    Raises: TerminalError when the log keeps the bytes, and its records are read in another way now
    """
    now = decoded_by(topic)
    if now is None:
        return replace(state, raw=None)
    if state.raw is None:
        return replace(state, raw={"decoded": now, "batch": state.batch})
    if state.raw["decoded"] != now:
        raise TerminalError(
            f"Topic '{topic.name}': its log was written by another description of it.",
            hint="Run `headrace plan` to see what happens to it, then `headrace apply`; or restore the description.",
        )
    return state


def why_not_anew(raw: Mapping[str, Any] | None, *, is_cut: bool) -> str:
    """Why a log cannot be made anew from its bytes; empty: it can. `raw` is that of its state."""
    if raw is None or raw["batch"]:
        return "older rows of its log have no bytes of their records"
    return "older rows of its log were cut off" if is_cut else ""
