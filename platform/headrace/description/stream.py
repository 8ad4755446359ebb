"""A stream: the records of one or more topics, each sent through its own row-wise steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from headrace.description.grouping import common_key, grouping_columns, require_known_columns, why_regrouped
from headrace.description.row_operators import StreamOperators
from headrace.description.shape import Shape
from headrace.description.steps import Select, Step, Transform, Where, WithColumn
from headrace.description.wording import listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.topic import Topic

__all__ = ["Branch", "Select", "Step", "Stream", "Transform", "Where", "WithColumn"]


@dataclass(frozen=True)
class Branch:
    """A topic and the steps that its records go through."""

    topic: Topic
    steps: tuple[Step, ...]

    @cached_property
    def shape(self) -> Shape:
        """The columns after the last step."""
        before = Shape(self.topic.columns, self.topic.types)
        return reduce(lambda shape, step: step.applied_to(shape), self.steps, before)


@dataclass(frozen=True)
class Stream(StreamOperators):
    """Branches whose records flow together; `columns` is None where a transform has left them unknown.

    In: new_key  the columns of the key that `key_by` gives the records; empty: they have the keys of their topics
    """

    branches: tuple[Branch, ...]
    columns: tuple[str, ...] | None
    new_key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.branches:
            raise DescriptionError("Stream: no branches.", hint="Begin with a topic: hr.Topic(…).where(…).")

    @property
    def stream(self) -> Stream:
        """Itself."""
        return self

    @property
    def _flow(self) -> Stream:
        return self

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics, in the order in which they were merged."""
        return tuple(branch.topic for branch in self.branches)

    @cached_property
    def shape(self) -> Shape:
        """The columns, and those types on which all branches agree."""
        first, *others = [branch.shape for branch in self.branches]
        types = {
            name: column
            for name, column in first.types.items()
            if all((theirs := other.type_of(name)) and theirs.type == column.type for other in others)
        }
        return Shape(self.columns, types)

    @property
    def transformed(self) -> bool:
        """Whether a step is a function of somebody's, which may be anything, also slow."""
        return any(isinstance(step, Transform) for branch in self.branches for step in branch.steps)

    def _with_step(self, step: Step) -> Stream:
        branches = tuple(Branch(branch.topic, (*branch.steps, step)) for branch in self.branches)
        return Stream(branches, step.applied_to(self.shape).columns, self.new_key)


def rekeyed(stream: Stream, columns: Sequence[str]) -> Stream:
    """See `RowOperators.key_by`."""
    require_known_columns(stream, "key_by")
    return replace(stream, new_key=grouping_columns(stream, columns, "key_by"))


def in_one_partition(stream: Stream, by: Sequence[str]) -> Stream:
    """The stream itself; if `key_by` moves groups over partitions, its rows by way of a log, which has one partition."""
    if not stream.new_key or why_regrouped(stream, by) is None:
        return stream
    from headrace.description.emitting import stream_of  # nodes hold streams
    from headrace.description.named_stream import NamedStream

    return stream_of(NamedStream(stream))


def merged(left: Stream, right: Stream) -> Stream:
    """See `RowOperators.merge`."""
    new_key = _key_of_both(left, right)
    if left.columns is not None and right.columns is not None:
        _refuse_other_columns(left.columns, right.columns)
        _refuse_other_types(left, right)
    if {topic.name for topic in left.topics} & {topic.name for topic in right.topics}:
        from headrace.description.emitting import stream_of  # nodes hold streams
        from headrace.description.merged import Merged

        return stream_of(Merged(left, right))
    columns = None if right.columns is None else left.columns
    return Stream(left.branches + right.branches, columns, new_key if columns is not None else ())


def _key_of_both(left: Stream, right: Stream) -> tuple[str, ...]:
    """The key that `key_by` gave one side, or both; raises DescriptionError if they are keyed differently then."""
    if not left.new_key and not right.new_key:
        return ()
    keys = common_key(left), common_key(right)
    if keys[0] != keys[1]:
        words = [listed(key) if key else "no one key" for key in keys]
        raise DescriptionError(
            f"merge: the left stream is keyed by {words[0]}, the right one by {words[1]}.",
            hint="Give them the key once they are one: .merge(…).key_by('…').",
        )
    return keys[0]


def _refuse_other_columns(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    only_left = [name for name in left if name not in right]
    only_right = [name for name in right if name not in left]
    if only_left or only_right:
        sides = (("left", only_left), ("right", only_right))
        found = "; ".join(f"only the {side} has {listed(names)}" for side, names in sides if names)
        raise DescriptionError(
            f"merge: the columns differ: {found}.", hint="Give both the same columns with .select(…)."
        )


def _refuse_other_types(left: Stream, right: Stream) -> None:
    for name, column in left.shape.types.items():
        theirs = right.shape.type_of(name)
        if theirs and theirs.type != column.type:
            raise DescriptionError(
                f"merge: column '{name}' is {column.type} on the left and {theirs.type} on the right.",
                hint=f"Cast one of them: .with_column('{name}', 'CAST({name} AS {column.type})').",
            )
