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

SOURCE, PIECES, ROOT, SECOND = "__source", "__pieces", "__root", "__second"
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


def chain_source(topic: Topic) -> list[Expr]:
    """The column `__source`: the header if there is one. None for a topic without a guard, which pays nothing.

    In: rows with `headers`
    """
    if topic.replay_guard is None:
        return []
    name = topic.replay_guard.header
    first = F.get("headers", F.lit(0))
    last = F.element_at(F.filter("headers", lambda header: header["key"] == name), -1)
    # A function over an array costs more than all else: a record with one header, of one or two entries, needs none.
    return [F.when((F.size("headers") == 1) & (first["key"] == name), first).otherwise(last).alias(SOURCE)]


def chain_steps(topic: Topic) -> list[tuple[str, Expr]]:
    """Columns to add one after the other: what the header's quotes cut it into, null unless it is well-formed; and the
    numbers of its first two entries.

    In: rows with `chain_source`
    """
    if topic.replay_guard is None:
        return []
    text = F.col(f"{SOURCE}.value").cast("string")
    return [
        (PIECES, F.when(F.rlike(text, F.lit(_GRAMMAR)), F.split(text, '"'))),
        (ROOT, _numbers(F.get(PIECES, F.lit(2)))),
        (SECOND, _numbers(F.get(PIECES, F.lit(4)))),
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
    pieces, root, second = F.col(PIECES), F.col(ROOT), F.col(SECOND)
    own = F.concat("topic", F.lit("/"), F.col("partition").cast("string"))
    names = F.sequence(F.lit(1), F.size(pieces) - 2, F.lit(2))
    hops = F.transform(names, lambda at: _hop(pieces[at], _numbers(pieces[at + 1])))
    ordinals = F.transform(names, lambda at: _ordinal(_numbers(pieces[at + 1])))
    one_entry, two_entries = F.size(pieces) == 3, F.size(pieces) == 5
    columns = {
        "root_topic": F.coalesce(F.get(pieces, F.lit(1)), F.col("topic")),
        "root_partition": F.coalesce(_partition(root), F.col("partition")),
        "root_offset": F.coalesce(_number_at(2, root).cast("long"), F.col("offset")),
        "ordinals": F.when(pieces.isNull(), F.array().cast("array<int>"))
        .when(one_entry, F.array(_ordinal(root)))
        .when(two_entries, F.array(_ordinal(root), _ordinal(second)))
        .otherwise(ordinals),
        "path": F.when(pieces.isNull(), own)
        .when(one_entry, F.concat_ws(ARROW, _hop(pieces[1], root), own))
        .when(two_entries, F.concat_ws(ARROW, _hop(pieces[1], root), _hop(pieces[3], second), own))
        .otherwise(F.concat_ws(ARROW, hops, own)),
    }
    return [F.when(present, columns[name]).alias(name) for name in CHAIN]


def _numbers(behind_name: Expr) -> Expr:
    """The numbers of an entry as a text, a comma before each: `, 0, 12], [` gives `, 0, 12`."""
    return F.substring_index(behind_name, "]", 1)


def _number_at(place: int, numbers: Expr) -> Expr:
    """One of an entry's numbers as a text, the first at 1; of the last ones also at a place beyond."""
    return F.substring_index(F.substring_index(numbers, ",", place + 1), ",", -1)


def _partition(numbers: Expr) -> Expr:
    return _number_at(1, numbers).cast("int")


def _hop(name: Expr, numbers: Expr) -> Expr:
    return F.concat(name, F.lit("/"), _partition(numbers).cast("string"))


def _ordinal(numbers: Expr) -> Expr:
    there = F.substring_index(numbers, ",", 3) != numbers
    return F.when(there, _number_at(3, numbers).cast("int")).otherwise(F.lit(NO_ORDINAL))


def root_of(path: str) -> tuple[str, int]:
    """The root topic and partition of a path."""
    topic, _, partition = path.partition(ARROW)[0].rpartition("/")
    return topic, int(partition)
