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

SOURCE, PIECES, HOPS = "__source", "__pieces", "__hops"
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
# An entry of a chain that is well-formed, with what stands before and behind it: its part of the path, and its ordinal.
_HOP = r'[^"]*"([^"]*)"[^0-9]*([0-9]*)[^\]]*[\] \t\r\n]*'
_ORDINAL_OF = r'[^"]*"[^"]*"[^,]*,[^,]*,[^,\]]*,?([^\]]*)[\] \t\r\n]*'
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
    # A function over an array costs more than all else: a record with one header needs none.
    return [F.when((F.size("headers") == 1) & (first["key"] == name), first).otherwise(last).alias(SOURCE)]


def chain_pieces(topic: Topic) -> list[Expr]:
    """The columns `__pieces`, what the header's commas cut it into, and `__hops`, its part of the path.

    Null unless it is well-formed.

    In: rows with `chain_source`
    """
    if topic.replay_guard is None:
        return []
    text = F.col(f"{SOURCE}.value").cast("string")
    found = {PIECES: F.split(text, ","), HOPS: F.regexp_replace(text, F.lit(_HOP), F.lit(f"$1/$2{ARROW}"))}
    well_formed = F.rlike(text, F.lit(_GRAMMAR))
    return [F.when(well_formed, column).alias(name) for name, column in found.items()]


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
    pieces, root = F.col(PIECES), F.lit(0)
    own = F.concat("topic", F.lit("/"), F.col("partition").cast("string"))
    # Nearly all chains have one or two entries, of three or four pieces each: these are taken apart without a pattern.
    one_entry, two_entries = F.size(pieces) <= 4, F.size(pieces) <= 8
    second = F.when(_begins_an_entry(pieces[3]), F.lit(3)).otherwise(F.lit(4))
    columns = {
        "root_topic": F.when(pieces.isNull(), F.col("topic")).otherwise(_name(pieces, root)),
        "root_partition": F.when(pieces.isNull(), F.col("partition")).otherwise(_partition(pieces, root)),
        "root_offset": F.when(pieces.isNull(), F.col("offset")).otherwise(_last(pieces[2]).cast("long")),
        "ordinals": F.when(pieces.isNull(), F.array().cast("array<int>"))
        .when(one_entry, F.array(_ordinal(pieces, root)))
        .when(two_entries, F.array(_ordinal(pieces, root), _ordinal(pieces, second)))
        .otherwise(_ordinals(F.col(f"{SOURCE}.value").cast("string"))),
        "path": F.when(pieces.isNull(), own).otherwise(F.concat(HOPS, own)),
    }
    return [F.when(present, columns[name]).alias(name) for name in CHAIN]


def _begins_an_entry(piece: Expr) -> Expr:
    return F.contains(piece, F.lit('"'))


def _name(pieces: Expr, at: Expr) -> Expr:
    """The topic of the entry that begins with this piece: `[["orders"`."""
    return F.split(pieces[at], '"')[1]


def _partition(pieces: Expr, at: Expr) -> Expr:
    return pieces[at + 1].cast("int")


def _ordinal(pieces: Expr, at: Expr) -> Expr:
    piece = F.get(pieces, at + 3)
    there = piece.isNotNull() & ~_begins_an_entry(piece)
    return F.when(there, _last(piece).cast("int")).otherwise(F.lit(NO_ORDINAL))


def _ordinals(text: Expr) -> Expr:
    """Those of all entries: of functions with a lambda Spark generates no code, and so none of what stands beside them."""
    listed = F.regexp_replace(text, F.lit(_ORDINAL_OF), F.lit(",$1"))
    complete = F.regexp_replace(listed, F.lit(",(?=,|$)"), F.lit(f",{NO_ORDINAL}"))
    return F.split(F.ltrim(complete, F.lit(",")), ",").cast("array<int>")


def _last(piece: Expr) -> Expr:
    """The number in a piece that may be the last of its entry: `2]]`."""
    return F.rtrim(piece, F.lit("] \t\r\n"))


def root_of(path: str) -> tuple[str, int]:
    """The root topic and partition of a path."""
    topic, _, partition = path.partition(ARROW)[0].rpartition("/")
    return topic, int(partition)
