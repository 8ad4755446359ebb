"""Whether records wait for a table: until its topics are read to where they ended when their logs were first begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description.node_output import written_by
from headrace.description.node_reference import is_of_kafka
from headrace.description.table import is_latest
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description.stream import Stream
    from headrace.description.topic import Topic


def is_complete_first(stream: Stream, table: object) -> bool:
    """Whether by default records wait for a complete table: one of topics from which no row of the stream comes."""
    topics = table.topics if is_latest(table) else ()
    own = _sources(stream.topics)
    return bool(topics) and all(is_of_kafka(topic) and topic not in own for topic in topics)


def check_complete_first(what: str, complete_first: object, topics: Sequence[Topic], otherwise: str) -> None:
    """Check what somebody asks for.

    In:     what       names the operator; `otherwise`: what to write in place of a table that is not of topics
    Raises: DescriptionError when it is neither true nor false, or cannot be waited for
    """
    if not isinstance(complete_first, bool):
        raise DescriptionError(f"{what}: complete_first {a_value(complete_first)} is not True or False.")
    other = next((topic for topic in topics if not is_of_kafka(topic)), None)
    if complete_first and other is not None:
        raise DescriptionError(
            f"{what}: complete_first waits for topics, and the table is made of {other.in_words}.",
            hint=f"{otherwise}, or leave complete_first out.",
        )


def _sources(topics: Sequence[Topic]) -> set[Topic]:
    """The topics whose records became those of some topics, directly or by way of other nodes of the pipeline."""
    read = ((topic, written_by(topic)) for topic in topics)
    each = ({topic} if of is None else _sources(of.row_topics) for topic, of in read)
    return set().union(*each)
