"""The order in which a processor's groups get their records, and the groups for which it must be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.description.wording import listed, require_choice
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.processed import Processed
    from headrace.description.stream import Stream

LOG, TIME = "log", "time"
_CHOICES = (
    "Write order='time': records and timers go by time, whatever the log's commits are, and grace= allows for disorder. "
    "Or write order='log': they go by the log's commits, and so does what the timers find."
)


def checked_order(node: Processed) -> str:
    """The order of a node: its own, or the log's.

    Raises: DescriptionError for an order that does not exist or does not fit; or when none is given and the node's timers
            would depend on how the log was committed
    """
    if node.order is None:
        _refuse_unordered(node)
    else:
        require_choice("process: order", node.order, (LOG, TIME))
    if node.order == TIME:
        _check_order_of_time(node)
    elif node.grace_ms:
        raise DescriptionError(
            "process: grace is given, and only order='time' waits for records.", hint="Write order='time'."
        )
    return node.order or LOG


def why_over_partitions(stream: Stream, by: Sequence[str]) -> str | None:
    """Why records of one group may come from several partitions of Kafka; None: they come from one.

    A group lies in one partition if it has the record key of one topic among its columns. A node's log has one partition,
    but its rows follow from others: it counts where these rows come from.
    """
    if len(stream.topics) > 1:
        return f"the stream has the topics {listed([topic.name for topic in stream.topics])}"
    (topic,), (branch,) = stream.topics, stream.branches
    for name in by:
        if any(step.replaces(name) for step in branch.steps):
            return f"column '{name}' is made on the way"
    if not topic.has_one_partition:
        key = [column.name for column in topic.key_columns]
        if key and {*key} <= {*by}:
            return None
        keyed = f"is keyed by {listed(key)}" if key else "has no key"
        return f"topic '{topic.name}' {keyed}, and the groups are by {listed(by)}"
    source: Stream | None = getattr(getattr(topic, "written_by", None), "stream", None)
    if source is None:
        return f"the rows of '{topic.in_words}' may come from several partitions"
    return why_over_partitions(source, by)


def _refuse_unordered(node: Processed) -> None:
    """Over several partitions the commits decide which record comes first, and so what a timer finds between them."""
    ending = [store.name for store in node.stores if store.lives_ms is not None]
    if not node.by or (node.stream_wait_ms is None and not ending):
        return
    why = why_over_partitions(node.stream, node.by)
    if why is not None:
        what = f"entries of store '{ending[0]}' end" if ending else "there are timers"
        raise DescriptionError(
            f"process: {what} by stream time, and the records of a group come from several partitions: {why}. Which of two "
            "partitions is first depends on the log's commits, so order= must say what counts.",
            hint=_CHOICES,
        )


def _check_order_of_time(node: Processed) -> None:
    for which, words, hint in (
        (not node.by, "a group is a partition", "Write .group_by(…) before."),
        (node.is_vectorised, f"{node.processor_name} takes tables", "Write a class of hr.Processor."),
        (node.on_error != "stop", "on_error is 'dead_letter'", "Write on_error='stop'."),
    ):
        if which:
            raise DescriptionError(
                f"process: order is 'time', and {words}, which does not go together.", hint=hint
            )
