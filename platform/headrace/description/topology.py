"""The parts of a node, for people: a tree from its table back to the topics, as text and as a Mermaid picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description.node_output import written_by
from headrace.description.node_reference import NodeReference, is_of_kafka
from headrace.description.part_words import words_of_sink, words_of_steps, words_of_topic
from headrace.description.shape import Shape
from headrace.description.spark_steps import each_with_need
from headrace.description.stream import Branch, Stream
from headrace.description.unnamed import is_unnamed, refuse_clashes
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.node import Node
    from headrace.description.steps import Step
    from headrace.description.topic import Topic

TOPIC, OPERATOR, TABLE, SINK = "topic", "operator", "table", "sink"
BY_SPARK = "  (by Spark)"
# Mermaid's brackets.
SHAPES = {TOPIC: ("[(", ")]"), OPERATOR: ("[", "]"), TABLE: ("[[", "]]"), SINK: (">", "]")}

# Letters within its quotes.
CODES = str.maketrans({'"': "#quot;", "#": "#35;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\n": "<br>"})


@dataclass(frozen=True)
class Part:
    """One part of a topology.

    kind    of SHAPES
    words   what it does
    inputs  the parts that it reads
    by_spark  whether only Spark computes it
    """

    kind: str
    words: str
    inputs: tuple[Part, ...] = ()
    by_spark: bool = False

    @property
    def marked(self) -> str:
        """Its words; a step that only Spark computes says so."""
        return f"{self.words}{BY_SPARK}" if self.by_spark else self.words

    @property
    def steps_by_spark(self) -> tuple[str, ...]:
        """The steps that only Spark computes, through parts of this node alone, in their order."""
        before = (step for each in self.inputs if each.kind != TABLE for step in each.steps_by_spark)
        return (*before, self.words) if self.by_spark else (*before,)


@dataclass(frozen=True)
class Topology:
    """The parts of some nodes. Its text is a tree for each: a table first, then what it is made of, down to the topics."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        """See the class."""
        return "\n\n".join("\n".join(_lines(_of_node(node))) for node in self.nodes)

    @property
    def mermaid(self) -> str:
        """A flow chart from the topics to the tables and sinks; what several nodes share stands there once."""
        numbers: dict[Part, int] = {}
        edges: dict[tuple[int, int], None] = {}
        for node in self.nodes:
            part = _of_node(node)
            self._drawn(part, numbers, edges)
            for sink in node.sinks:
                numbers.setdefault(drawn := Part(SINK, words_of_sink(sink), (part,)), len(numbers))
                edges[numbers[part], numbers[drawn]] = None
        boxes = (_box(number, part) for part, number in numbers.items())
        arrows = (f"  p{one} --> p{other}" for one, other in edges)
        return "\n".join(["flowchart LR", *boxes, *arrows])

    def _drawn(self, part: Part, numbers: dict[Part, int], edges: dict[tuple[int, int], None]) -> None:
        for each in part.inputs:
            self._drawn(each, numbers, edges)
        numbers.setdefault(part, len(numbers))
        edges.update(dict.fromkeys((numbers[each], numbers[part]) for each in part.inputs))


def describe(*nodes: Node) -> Topology:
    """Describe nodes by their parts, from the tables back to the topics; nothing is started.

    Out:    its `str()` is a tree for each node, its `.mermaid` a flow chart
    Raises: DescriptionError when two nodes have one name, or one is no node
    Source: Kafka Streams, Topology.describe.
    """
    for each in nodes:
        if not hasattr(each, "required_name"):
            raise DescriptionError(
                f"describe: {a_value(each)} is no node.",
                hint="Write hr.describe(first, second); of a list hr.describe(*nodes).",
            )
    refuse_clashes(nodes)
    return Topology(nodes)


def words_of(node: Node) -> str:
    """The work of a node's last operator."""
    return _operators(node)[0].words


def steps_by_spark(node: Node) -> tuple[str, ...]:
    """The steps of a node that only Spark computes, but for those of named nodes that it reads."""
    return tuple(dict.fromkeys(step for part in _operators(node) for step in part.steps_by_spark))


def words_of_branch(branch: Branch) -> str:
    """The work of a branch's last step; its topic if it has no steps."""
    return _of_branch(branch).words


def _of_node(node: Node) -> Part:
    sinks = f", to {listed([words_of_sink(sink) for sink in node.sinks])}" if node.sinks else ""
    if node.name is not None and is_unnamed(node.name):
        (made,) = _operators(node)
        return made
    return Part(TABLE, f"{node.name or 'a node without a name'}{sinks}", _operators(node))


def _operators(node: Node) -> tuple[Part, ...]:
    """The operators that make the table of a node."""
    parts = tuple(
        part
        for each in node.inputs_drawn
        for part in (_of_stream(each) if isinstance(each, Stream) else _operators(each))
    )
    for words, by_spark in node.work:
        parts = (Part(OPERATOR, words, parts, by_spark),)
    return parts


def _of_stream(stream: Stream) -> tuple[Part, ...]:
    parts = tuple(map(_of_branch, stream.branches))
    if len(parts) > 1:
        parts = (Part(OPERATOR, "merge", parts),)
    return (Part(OPERATOR, f"key by {listed(stream.new_key)}", parts),) if stream.new_key else parts


def _of_branch(branch: Branch) -> Part:
    before = Shape(branch.topic.columns, branch.topic.types)
    return _after(_topic(branch.topic), each_with_need(branch.steps, before))


def _after(part: Part, needs: Iterable[tuple[Step, bool]]) -> Part:
    """A part and the steps after it. In: each step with whether only Spark computes it."""
    for words, by_spark in words_of_steps(needs):
        part = Part(OPERATOR, words, (part,), by_spark)
    return part


def _topic(topic: Topic) -> Part:
    if (node := written_by(topic)) is not None:
        return _of_node(node)
    name = (
        f"node {topic.node} of another pipeline"
        if isinstance(topic, NodeReference)
        else f"topic {topic.name}"
    )
    keys, values = ([column.name for column in some] for some in (topic.key_columns, topic.value_columns))
    words = words_of_topic(topic) if is_of_kafka(topic) else ""
    return Part(TOPIC, f"{name} ({f'key {listed(keys)}; ' if keys else ''}{listed(values)}){words}")


def _lines(part: Part, before: str = "", after: str = "") -> Iterator[str]:
    """A tree. In: `before` stands before its first line, `after` before all others."""
    first, *others = part.marked.splitlines() or [""]
    yield before + first
    yield from (after + ("│  " if part.inputs else "   ") + line for line in others)
    for number, each in enumerate(part.inputs, 1):
        last = number == len(part.inputs)
        yield from _lines(each, after + ("└─ " if last else "├─ "), after + ("   " if last else "│  "))


def _box(number: int, part: Part) -> str:
    opening, closing = SHAPES[part.kind]
    return f'  p{number}{opening}"{part.marked.translate(CODES)}"{closing}'
