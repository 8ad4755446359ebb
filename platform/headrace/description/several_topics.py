"""Several topics of one description, read as one stream: their merge.

Law: the stream is `one.merge(other).merge(…)` of the topics in the list's order. So each topic has its log, and chains,
places and stream times are those of each topic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.description.stream import merged
from headrace.description.topic import Topic
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.stream import Stream

_EXAMPLE = "Write hr.topics(['orders-at', 'orders-de'], key='id STRING', value='amount INT')."


def topics(names: Sequence[str], *, pattern: str | None = None, **description: Any) -> Stream:
    """Describe several topics whose records look alike, as one stream. `record_topic()` says which topic a record is of.

    In:     names        of the topics, all of which are read
            pattern      a regular expression that matches each whole name. The list alone says what is read: `headrace
                         config check` names topics of the broker that match and are not in it, and a new one is a change
                         of the description that `headrace plan` shows
            description  of each topic, as for `hr.Topic`
    Out:    their merge; `.topics` are the topics, for `topics=` of a driver and the like
    Raises: DescriptionError for a list without names, a name that occurs twice or does not match, and as `hr.Topic` does
    """
    _check_names(names)
    made = [replace(Topic(name, **description), family=pattern) for name in names]
    if pattern is not None:
        _check_matches(pattern, names)
    return reduce(merged, (topic.stream for topic in made))


def _check_names(names: Sequence[str]) -> None:
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if not is_list or not names or not all(isinstance(name, str) for name in names):
        raise DescriptionError(f"topics: {a_value(names)} is no list of names.", hint=_EXAMPLE)
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise DescriptionError(f"topics: '{twice}' occurs twice.", hint="Write each topic once.")


def _check_matches(pattern: object, names: Sequence[str]) -> None:
    if not isinstance(pattern, str):
        raise DescriptionError(
            f"topics: pattern {a_value(pattern)} is no text.", hint="Write for example pattern='orders-.*'."
        )
    try:
        other = next((name for name in names if not re.fullmatch(pattern, name)), None)
    except re.error as error:
        raise DescriptionError(
            f"topics: pattern {a_value(pattern)} is no regular expression: {error}.",
            hint="Write for example pattern='orders-.*'.",
        ) from None
    if other is not None:
        raise DescriptionError(
            f"topics: '{other}' does not match the pattern {a_value(pattern)}.",
            hint="Correct one of them, or leave out the pattern.",
        )
