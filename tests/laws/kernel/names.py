"""Odd names of columns, and nodes of every kind whose columns have such names."""

from __future__ import annotations

from typing import Any

import headrace as hr
from headrace.description import Node
from headrace.description.schema import quote

NAMES = (
    "a`b", "`", "x.y", " sp ace ", "it's", 'qu"ote', "Ümläut", "select", "MixedCase", "100%s{}", "a,b;(c)=d", "$back\\slash", "a:b",
    "left", "key",
)  # fmt: skip


def topics(name: str) -> tuple[hr.Topic, hr.Topic]:
    """Two topics: the key of the first is called so, and other columns have longer names."""
    one = hr.Topic(
        "t", key=f"{quote(name)} STRING", value=f"{quote(name + '`n')} BIGINT, {quote(name + '.r')} STRING"
    )
    other = hr.Topic(
        "u",
        key=f"{quote(name + '.k')} STRING",
        value=f"{quote(name + ' n')} BIGINT, {quote('R' + name)} STRING",
    )
    return one, other


def nodes(name: str) -> dict[str, Node]:
    """Nodes of every kind over them."""
    one, other = topics(name)
    number, refers = f"{name}`n", f"{name}.r"
    sums: dict[str, Any] = {
        f"{name}`s": hr.sum(number),
        f"{name} of": hr.last(refers),
        f"'{name}": hr.count(),
    }
    taken_back = {f"{name}`s": hr.avg(number), f"'{name}": hr.count(refers)}
    by, table, known = one.group_by(name), one.table(), other.table()
    made: dict[str, Any] = {
        "tumbling": by.window(hr.tumbling("8 seconds"), grace="1 second").aggregate(**sums),
        "hopping": one.group_by(refers, name)
        .window(hr.hopping("8 seconds", "3 seconds"), grace=0)
        .aggregate(**sums)
        .suppress(hr.until_window_closes()),
        "sessions": by.window(hr.session("2 seconds"), grace="1 second").aggregate(**sums),
        "sliding": by.window(hr.sliding("3 seconds"), grace=0).aggregate(**sums),
        "totals": one.group_by(refers).aggregate(**sums),
        "waits": by.aggregate(**sums).suppress(hr.until_time_limit("3 seconds")),
        "tables": table,
        "groups": table.group_by(refers).aggregate(**taken_back),
        "picked": table.group_by(refers).aggregate(
            **{f"{name}`s": hr.max(number), f"'{name}": hr.collect(refers, 3)}
        ),
        "outer": table.join(known, on=name, how="outer"),
        "chosen": table.join(known, on=refers, how="left").select(
            quote(number), f"{quote(refers)} AS {quote(name + '!')}"
        ),
        "joins": table.join(known, on=refers, how="left"),
        "joined_totals": one.group_by(refers).aggregate(**sums).join(known, on=refers),
        "batches": by.batch(collect=(number, refers), max_records=2),
        "lookups": one.lookup(known, on=refers, complete_first=False),
        "timed_lookups": one.lookup(known, on=refers, as_of="event", complete_first=False),
    }
    return {kind: node.named(f"{kind}_of_odd") for kind, node in made.items()}
