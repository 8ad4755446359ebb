"""The words of `describe` for formats, guards, waits and stores of topics, processors and sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from headrace.description.durations import format_duration
from headrace.description.formats import Format
from headrace.description.processed import class_of
from headrace.description.quota import quota_of
from headrace.description.wording import listed

if TYPE_CHECKING:
    from headrace.description.processed import Processed
    from headrace.description.sink import Sink
    from headrace.description.topic import Topic

JSON = "json"


def words_of_topic(topic: Topic) -> str:
    """Formats, event time, guard, and how long the topic may be silent, if they are no defaults; each after a comma."""
    return "".join(f", {words}" for words in _of_topic(topic))


def words_of_processor(node: Processed) -> str:
    """Its stores, the tables for which it waits, and how long its timers may wait; each after a comma."""
    own_words = class_of(node.processor)._in_words_of(node) is not None  # it says itself what matters
    words = (
        [f"stores {listed([store.name for store in node.stores])}"] if node.stores and not own_words else []
    )
    clocks = (("stream", node.stream_wait_ms), ("wall", node.wall_wait_ms))
    words += [f"timers of the {clock} clock up to {format_duration(ms)}" for clock, ms in clocks if ms]
    words += [f"{listed(node.waits_for)} complete first"] if node.waits_for else []
    return "".join(f", {each}" for each in words)


def words_of_sink(sink: Sink) -> str:
    """Its name, formats that are not JSON, and its quota."""
    formats = {name: getattr(sink, name, JSON) for name in ("key_format", "format")}
    words = [f"{PART[name]} {_format(each)}" for name, each in formats.items() if each != JSON]
    if (quota := quota_of(sink)) is not None:
        bounds = (("rows", quota.rows_per_second), ("bytes", quota.bytes_per_second))
        words += [f"at most {bound:,g} {what} a second" for what, bound in bounds if bound is not None]
    return f"{sink.name} ({', '.join(words)})" if words else sink.name


PART = {"key_format": "keys", "format": "values"}


def _of_topic(topic: Topic) -> Iterator[str]:
    for name, words in PART.items():
        given = getattr(topic, name)
        if given != JSON and (name == "format" or topic.key_columns):
            yield f"{words} {_format(given)}"
    if topic.timestamp is not None:
        yield f"event time {topic.timestamp}"
    if topic.replay_guard is not None:
        yield f"{topic.replay_guard.mode} replay guard by {topic.replay_guard.place}"
    if topic.idle_timeout is None:
        yield "never idle"
    elif topic.idle_timeout != _default_of(topic, "idle_timeout"):
        yield f"idle after {topic.idle_timeout}"


def _format(of: Format | str) -> str:
    """A format's name; of numbers their type, too."""
    if isinstance(of, str):
        return of
    kind = getattr(of, "type", None)
    return type(of).__name__ + (f" {kind}" if isinstance(kind, str) else "")


def _default_of(topic: Topic, name: str) -> Any:
    return next(each.default for each in fields(topic) if each.name == name)
