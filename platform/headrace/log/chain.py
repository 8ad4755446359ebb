"""The source chain: where a record comes from, hop by hop, read from its header.

The header holds a JSON list of `[topic, partition, offset]` or `[topic, partition, offset, ordinal]`, the root first:
each hop that republishes appends the position of what it read, and numbers the outputs of one input by ordinals.

    [["orders", 0, 12], ["parts", 1, 40, 2]]   read in partition 3 of the topic `screws`:
    root orders/0 at offset 12, ordinals [-1, 2], path `orders/0>parts/1>screws/3`

Law: a function of the row. A record without the header is its own root; of several headers of the name the last
counts (Kafka's `lastHeader`). Names are Kafka's (letters, digits, `.`, `_`, `-`), so a path is unambiguous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr

    from headrace.description import Topic

SOURCE, PIECES, ROOT = "__source", "__pieces", "__root"
CHAIN = ("root_topic", "root_partition", "root_offset", "ordinals", "path")
NO_ORDINAL = -1  # stands for the ordinal that an entry lacks: positions of one path have one length and sort
ENTRIES_MAX = 100
ARROW = ">"

_W = r"[ \t\r\n]*"


def _number(digits_max: int) -> str:
    return rf"(?:0|[1-9][0-9]{{0,{digits_max - 1}}})"


# Digits are bounded so that each number fits its column; possessive repetition needs no stack, however long the text.
_ENTRY = (
    rf'\[{_W}"[A-Za-z0-9._-]{{1,249}}"{_W},{_W}{_number(9)}{_W},{_W}{_number(18)}{_W}'
    rf"(?:,{_W}{_number(9)}{_W})?+\]"
)
_GRAMMAR = rf"^{_W}\[{_W}{_ENTRY}(?:{_W},{_W}{_ENTRY}){{0,{ENTRIES_MAX - 1}}}+{_W}\]{_W}$"


def chain_steps(topic: Topic) -> list[tuple[str, Expr]]:
    """Columns to add one after the other: `__source`, the header if there is one; what its quotes cut it into, null unless
    it is well-formed; and the first entry's numbers. None for a topic without a guard, which pays nothing.

    In: rows with `headers`
    """
    if topic.replay_guard is None:
        return []
    name = topic.replay_guard.header
    first = F.get("headers", F.lit(0))
    last = F.element_at(F.filter("headers", lambda header: header["key"] == name), -1)
    text = F.col(f"{SOURCE}.value").cast("string")
    return [
        # A function over an array costs more than all else: the record with this one header, of one entry, needs none.
        (SOURCE, F.when((F.size("headers") == 1) & (first["key"] == name), first).otherwise(last)),
        (PIECES, F.when(F.rlike(text, F.lit(_GRAMMAR)), F.split(text, '"'))),
        (ROOT, _numbers(F.get(PIECES, F.lit(2)))),
    ]


def malformed_chain(topic: Topic) -> list[tuple[Expr, Expr]]:
    """When a chain that was read is malformed, and the reason."""
    if topic.replay_guard is None:
        return []
    words = (
        f"malformed {topic.replay_guard.header}: not a JSON list of 1 to {ENTRIES_MAX} entries "
        "[topic, partition, offset] or [topic, partition, offset, ordinal]"
    )
    return [(F.col(SOURCE).isNotNull() & F.col(PIECES).isNull(), F.lit(words))]


def chain_columns(topic: Topic, present: Expr) -> list[Expr]:
    """The columns of `CHAIN`; null where `present` is false, none for a topic without a guard."""
    if topic.replay_guard is None:
        return []
    pieces, root = F.col(PIECES), F.col(ROOT)
    own = F.concat("topic", F.lit("/"), F.col("partition").cast("string"))
    names = F.sequence(F.lit(1), F.size(pieces) - 2, F.lit(2))
    hops = F.transform(names, lambda at: _hop(pieces[at], _numbers(pieces[at + 1])))
    ordinals = F.transform(names, lambda at: _ordinal(_numbers(pieces[at + 1])))
    one_entry = F.size(pieces) == 3
    columns = {
        "root_topic": F.coalesce(F.get(pieces, F.lit(1)), F.col("topic")),
        "root_partition": F.coalesce(root[1].cast("int"), F.col("partition")),
        "root_offset": F.coalesce(root[2].cast("long"), F.col("offset")),
        "ordinals": F.when(pieces.isNull(), F.array().cast("array<int>"))
        .when(one_entry, F.array(_ordinal(root)))
        .otherwise(ordinals),
        "path": F.when(pieces.isNull(), own)
        .when(one_entry, F.concat(_hop(pieces[1], root), F.lit(ARROW), own))
        .otherwise(F.concat_ws(ARROW, hops, own)),
    }
    return [F.when(present, columns[name]).alias(name) for name in CHAIN]


def _numbers(behind_name: Expr) -> Expr:
    """The numbers of an entry as texts, the first at index 1: `, 0, 12], [` gives `["", " 0", " 12"]`."""
    return F.split(F.substring_index(behind_name, "]", 1), ",")


def _hop(name: Expr, numbers: Expr) -> Expr:
    return F.concat(name, F.lit("/"), numbers[1].cast("int").cast("string"))


def _ordinal(numbers: Expr) -> Expr:
    return F.coalesce(F.get(numbers, F.lit(3)).cast("int"), F.lit(NO_ORDINAL))


def root_of(path: str) -> tuple[str, int]:
    """The root topic and partition of a path."""
    topic, _, partition = path.partition(ARROW)[0].rpartition("/")
    return topic, int(partition)


def own_partition(path: str) -> int:
    """The partition in which records of this path arrive."""
    return int(path.rpartition("/")[2])
