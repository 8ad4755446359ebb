"""The words of `describe` for steps, and for formats, guards and waits of topics and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from headrace.description.aggregate_inputs import is_of_aggregate
from headrace.description.flat_map import FlatMap
from headrace.description.formats import Format
from headrace.description.quota import quota_of
from headrace.description.steps import Select, Step, Transform, Where, WithColumn
from headrace.description.wording import listed

if TYPE_CHECKING:
    from headrace.description.sink import Sink
    from headrace.description.topic import Topic

JSON = "json"


def words_of_topic(topic: Topic) -> str:
    """Formats, event time, guard, and how long the topic may be silent, if they are no defaults; each after a comma."""
    return "".join(f", {words}" for words in _of_topic(topic))


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


def words_of_steps(needs: Iterable[tuple[Step, bool]]) -> Iterator[tuple[str, bool]]:
    """Each row-wise step in few words, and whether only Spark computes it.

    The words of an aggregate have its expressions, so their columns are left out.
    """
    for step, by_spark in needs:
        if not isinstance(step, WithColumn) or by_spark or not is_of_aggregate(step.name, step.expression):
            yield _step(step), by_spark


def _step(step: Step) -> str:
    match step:
        case Where():
            return f"where {step.expression}"
        case Select():
            return f"select {listed(step.expressions)}"
        case FlatMap():
            return f"flat map {step.expression}"
        case WithColumn():
            return f"with column {step.name} = {step.expression}"
        case Transform():
            return f"transform {getattr(step.function, '__name__', 'function')}"
