"""Logs of topics with `keep_raw`: a log so kept is always that of its topic's description.

Law: nothing is appended to such a log by another description; `headrace apply` makes it anew first, from the bytes that its
rows have or from Kafka. If a log began without the bytes, its older rows cannot be made anew from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError
from headrace.lake import last_commit, open_table, small_files

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.lake.paths import Lake
    from headrace.sequence.log_state import LogState

RAW_COLUMN = "raw_timestamp"
KAFKAS = "Kafka's timestamp"  # what stands for the event time that no description names
WORDS = {"timestamp": "event time", "format": "format", "key_format": "format of keys"}


def decoded_by(topic: Topic) -> Mapping[str, Any] | None:
    """How a topic's records are read, as a log says it; None: the topic has no `keep_raw`."""
    found: Mapping[str, Any] | None = json.loads(json.dumps(topic.rules())).get("decoded")
    return found


def kept_by(topic: Topic, batch: int = 0) -> Mapping[str, Any]:
    """The entry of a log about the bytes of its records. In: topic  has `keep_raw`; batch  the first that is written so."""
    where = {} if topic.has_bytes_in_log else {"in": topic.keep_raw}
    return {"decoded": decoded_by(topic), "batch": batch, **where}


def raw_entry(lake: Lake, topic: Topic) -> Mapping[str, Any] | None:
    """The entry of a topic's log about the bytes of its records; None: it has none so far."""
    commit = last_commit(open_table(lake.log(topic.name)), f"log/{topic.name}")
    found: Mapping[str, Any] | None = None if commit is None else commit.record.get("after", {}).get("raw")
    return found


def noted_reading(lake: Lake, topic: Topic) -> Mapping[str, Any] | None:
    """How the records of a log were read that says nothing of it: as the lake notes the description of the topic.

    Out: None: the lake does not know it
    """
    noted = small_files.read_json(lake.topic(topic.name)) or {}
    found = {name: noted.get(name) for name in topic.decoded}
    return found if noted.keys() >= found.keys() else None


def other_reading(before: Mapping[str, Any] | None, topic: Topic) -> Iterator[str]:
    """The changes in the way in which records are read, beside their columns, in words. In: before  None: not known."""
    if before is None:
        return
    for name, words in WORDS.items():
        was, now = before[name], topic.decoded[name]
        if was != now:
            yield f"{words}: {was or KAFKAS} -> {now or KAFKAS}"


def is_read_otherwise(lake: Lake, topic: Topic) -> bool:
    """True if nothing may be appended to a log, because its records were read in another way.

    Columns of the value alone are judged by those of the log, unless it says how records are read.
    """
    if (raw := raw_entry(lake, topic)) is None:
        return bool(topic.keep_raw) and any(other_reading(noted_reading(lake, topic), topic))
    return (
        raw["decoded"] != decoded_by(topic) if topic.keep_raw else any(other_reading(raw["decoded"], topic))
    )


def require_same_reading(lake: Lake, topic: Topic) -> None:
    """Refuse to append to a log whose records were read in another way. Raises: TerminalError."""
    if is_read_otherwise(lake, topic):
        raise written_by_another(topic.name)


def keeping_raw(state: LogState, topic: Topic) -> LogState:
    """The state of a log that is opened to append to it.

    Raises: TerminalError when the log says how its records are read, and they are read in another way now
    """
    raw = state.raw
    if not topic.keep_raw:
        if raw is not None and any(other_reading(raw["decoded"], topic)):
            raise written_by_another(topic.name)
        return replace(state, raw=None)
    if raw is not None and raw["decoded"] != decoded_by(topic):
        raise written_by_another(topic.name)
    if raw is None or raw.get("in") != kept_by(topic).get("in"):
        return replace(state, raw=kept_by(topic, state.batch))
    return state


def written_by_another(topic: str) -> TerminalError:
    """The error of a log to which nothing may be appended."""
    return TerminalError(
        f"Topic '{topic}': its log was written by another description of it.",
        hint="Run `headrace plan` to see what happens to it, then `headrace apply`; or restore the description.",
    )


def why_not_remade(raw: Mapping[str, Any] | None, *, is_cut: bool) -> str:
    """Why a log cannot be made anew from its own bytes; empty: it can. `raw` is that of its state."""
    if is_cut:
        return "older rows of its log were cut off"
    has_all = raw is not None and not raw["batch"] and "in" not in raw
    return "" if has_all else "older rows of its log have no bytes of their records"
