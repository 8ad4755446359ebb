"""A node of another pipeline, by its name: which description wrote it is looked up in the lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar, overload

from headrace.description.node import Node, check_name
from headrace.description.node_output import NodeOutput, written_by
from headrace.description.schema import parse_ddl, to_ddl
from headrace.description.table import Table
from headrace.description.topic import Topic
from headrace.description.unnamed import is_unnamed, under_a_name
from headrace.description.wording import a_value, listed, require_choice
from headrace.errors import DescriptionError, TerminalError

STREAM, TABLE = "stream", "table"
KINDS = (STREAM, TABLE)
T = TypeVar("T")


class OtherNodeError(TerminalError):
    """A node is read by name and is not what its reader says."""


@dataclass(frozen=True, eq=False)
class NodeReference(Topic):
    """The final rows of a node that another pipeline writes, each a record.

    In:  node     its name. The topic's name is `<node>@<generation>`; the generation is found in the lake (`found`)
         changes  whether they are the changes of a table; found there, too
         behind_ms  its `behind_clock_ms`; found there, too
    Law: once found, it is the topic that a reader in the node's own pipeline has (`NodeOutput`), record by record.
    """

    node: str = ""
    changes: bool = False
    behind_ms: int = 0

    @property
    def behind_clock_ms(self) -> int:
        """As its node says."""
        return self.behind_ms

    @property
    def tells_changes(self) -> bool:
        """As its node does."""
        return self.changes

    @property
    def generation(self) -> str:
        """The first digits of the fingerprint of the description that wrote it; empty: not looked up yet."""
        return self.name.partition("@")[2]

    has_one_partition = True  # it has one alone

    @property
    def in_words(self) -> str:
        """The node, as people call it."""
        return self.node

    def rules(self) -> dict[str, Any]:
        """All that its rows depend on beside its generation, which is in the topic's name."""
        return {"by_name": self.node}

    def resolved(self, fingerprint: str, output: Mapping[str, Any]) -> NodeReference:
        """The same, of a generation.

        In:     output  what the node gives, as its description noted it (see `output_of`)
        Raises: OtherNodeError when it gives no rows for good, or other columns
        """
        refusal = output.get("refusal")
        if refusal is not None:
            raise OtherNodeError(f"Node '{self.node}' cannot be read by its name.", detail=refusal)
        key = parse_ddl(output["key"], self._what) if output["key"] else ()
        self._check_columns(
            {each.name: each.type for each in (*key, *parse_ddl(output["value"], self._what))}
        )
        mine, its = ([column.name for column in columns] for columns in (self.key_columns, key))
        if mine and its and {*mine} != {*its}:
            raise OtherNodeError(
                f"Node '{self.node}' has the key {listed(its)}, and not {listed(mine)}.",
                hint=f"Write hr.node('{self.node}', …, key={its!r}).",
            )
        name = f"{self.node}@{fingerprint[:12]}"
        own = {"changes": output.get("changes", False), "behind_ms": output.get("behind_ms", 0)}
        return replace(self, name=name, key=output["key"], value=output["value"], **own)

    def _check_columns(self, actual: Mapping[str, str]) -> None:
        mine = {name: column.type for name, column in self.types.items()}
        if mine != actual:
            off = [
                f"{name}: {actual.get(name, 'not a column')}, described as {mine.get(name, 'not a column')}"
                for name in dict.fromkeys([*actual, *mine])
                if actual.get(name) != mine.get(name)
            ]
            schema = ", ".join(f"{name} {of}" for name, of in actual.items())
            raise OtherNodeError(
                f"Node '{self.node}' has other columns than its reader describes.",
                detail="; ".join(off),
                hint=f"Write hr.node('{self.node}', schema=\"{schema}\").",
            )

    @property
    def _what(self) -> str:
        return f"Node '{self.node}'"

    def _check_name(self) -> None:
        """It is made here."""

    @property
    def _content(self) -> tuple[object, ...]:
        return (*super()._content, self.node)


@overload
def node(
    name: str, *, schema: str, key: Sequence[str] = (), kind: Literal["stream"] = "stream"
) -> NodeReference: ...
@overload
def node(name: str, *, schema: str, key: Sequence[str] = (), kind: Literal["table"]) -> Table: ...
def node(
    name: str, *, schema: str, key: Sequence[str] = (), kind: Literal["stream", "table"] = "stream"
) -> NodeReference | Table:
    """A node of another pipeline, by its name: its final rows, as they are in the lake.

    In:     schema  all columns of the node as DDL
            key     those of them that tell its rows apart (of windows the group and `window_start`). `table` and `group_by`
                    without columns need it; without it the key is the node's
            kind    "stream": the rows, each once; "table": the latest row of every key
    Law:    the results are those that a reader in the node's own pipeline would have.
    Raises: DescriptionError naming what does not fit. Whether there is such a node is found out when a stream starts:
            until another pipeline has written it, the stream waits.
    """
    check_name(name)
    require_choice("node: kind", kind, KINDS, "kinds are")
    columns = {column.name: column for column in parse_ddl(schema, f"Node '{name}': schema")}
    keys = (key,) if isinstance(key, str) else tuple(key)
    unknown = [each for each in keys if each not in columns]
    if unknown:
        raise DescriptionError(
            f"Node '{name}': key column {a_value(unknown[0])} is not in its schema.",
            hint=f"Its columns are {listed([*columns])}.",
        )
    if kind == TABLE and not keys:
        raise DescriptionError(
            f"Node '{name}': a table has a key.", hint="Name the columns that tell its rows apart: key=['…']."
        )
    others = [column for each, column in columns.items() if each not in keys] or [*columns.values()]
    found = NodeReference(
        f"{name}@",
        key=to_ddl([columns[each] for each in keys]) if keys else None,
        value=to_ddl(others),
        idle_timeout=None,
        node=name,
    )
    return found if kind == STREAM else found.table()


def output_of(node: Node) -> dict[str, Any]:
    """The columns that a node gives to readers that know its name, as JSON; or why it gives none."""
    if not node.is_appended:
        return {
            "refusal": "Its rows are revised, and it has no log of its own. Name its changes, and read that node: "
            ".changes().named('…') of a table, .suppress(hr.until_window_closes()).named('…') of windows."
        }
    try:
        topic = NodeOutput.of(under_a_name(node))
    except DescriptionError as error:
        return {"refusal": str(error)}
    behind_ms = topic.behind_clock_ms
    return {"key": topic.key, "value": topic.value, "changes": topic.tells_changes, "behind_ms": behind_ms}


def is_of_kafka(topic: Topic) -> bool:
    """True for a topic whose records come from Kafka; False for what a node gives."""
    return written_by(topic) is None and not isinstance(topic, NodeReference)


def references_of(node: Node) -> list[NodeReference]:
    """The nodes that a node reads by name, also through others; each once."""
    found: dict[str, NodeReference] = {}
    for topic in node.topics:
        if isinstance(topic, NodeReference):
            found[topic.node] = topic
        elif (writer := written_by(topic)) is not None:
            found |= {each.node: each for each in references_of(writer)}
    return [*found.values()]


def with_references(described: T, find: Callable[[NodeReference], Topic]) -> T:
    """A description with other references: itself if it has none.

    In: find  what stands in the place of a reference
    """
    changed = partial(with_references, find=find)
    match described:
        case NodeReference():
            return find(described)  # type: ignore[return-value]
        case NodeOutput():
            writer = changed(described.written_by)
            return described if writer is described.written_by else NodeOutput.of(writer)  # type: ignore[arg-type, return-value]
        case tuple():
            items = tuple(map(changed, described))
            same = all(new is old for new, old in zip(items, described, strict=True))
            return described if same else items  # type: ignore[return-value]
    if not is_dataclass(described) or isinstance(described, type | Topic):
        return described
    before = {each.name: getattr(described, each.name) for each in fields(described) if each.init}
    after = {name: new for name, old in before.items() if (new := changed(old)) is not old}
    if not after:
        return described
    made = replace(described, **after)
    if isinstance(made, Node) and made.name is not None and is_unnamed(made.name):
        return under_a_name(replace(made, name=None))  # type: ignore[return-value]  # its name follows from what it reads
    return made
