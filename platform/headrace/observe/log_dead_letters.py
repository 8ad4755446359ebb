"""The dead letters of a topic's log, by reason. DuckDB reads the log, so no Spark starts.

Law: the answer equals `by_reason` of `Views.dead_letters` of the topic.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError
from headrace.lake import open_table
from headrace.log.views import REDRIVEN
from headrace.observe.dead_letters import NUMBER, TEXT_MAX, DeadLetters, group_of
from headrace.observe.sql import LakeSql
from headrace.sequence.log_columns import DEAD_LETTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake


def log_dead_letters(
    lake: Lake, nodes: Sequence[Node], topic: Topic, examples: int
) -> tuple[list[DeadLetters], int]:
    """The dead letters, and how many of them stand in the log again.

    In:     nodes     of the pipeline; some read the topic
            examples  how many of each reason are given, the newest
    Raises: TerminalError when the topic has no log
    """
    if not open_table(lake.log(topic.name)).exists:
        raise TerminalError(
            f"Topic '{topic.name}' has no log in {lake.root}.", hint="Its log begins when its stream starts."
        )
    name = '"' + topic.name.replace('"', '""') + '"'
    text = f"""
        SELECT topic, "partition", "offset", ingested_at, reason, count(*) OVER alike AS records,
          min(ingested_at) OVER alike AS first_at, raw_key[1:{TEXT_MAX + 1}] AS key, raw_value[1:{TEXT_MAX + 1}] AS value
        FROM logs.{name} WHERE kind = '{DEAD_LETTER}'
        WINDOW alike AS (PARTITION BY reason)
        QUALIFY row_number() OVER
          (PARTITION BY reason ORDER BY ingested_at DESC, "partition", "offset" DESC) <= {max(examples, 1)}"""
    again = f"""
        SELECT list_filter(headers, each -> each.key = '{REDRIVEN}')[-1].value AS value
        FROM logs.{name} WHERE len(list_filter(headers, each -> each.key = '{REDRIVEN}')) > 0"""
    with LakeSql(lake, nodes) as sql:
        rows = sql.query(text).to_pylist()
        sent = sql.query(again).to_pylist() if rows else []
    return _by_reason(rows, examples), len({_place(row["value"], topic.name) for row in sent} - {None})


def _by_reason(rows: Sequence[dict[str, Any]], examples: int) -> list[DeadLetters]:
    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(
        rows, key=lambda row: (-row["ingested_at"].timestamp(), row["partition"], -row["offset"])
    ):
        alike[re.sub(NUMBER, "#", row["reason"])].append(row)
    groups = []
    for reason, found in alike.items():
        records = sum({row["reason"]: row["records"] for row in found}.values())
        first_at = min(row["first_at"] for row in found)
        newest = {**found[0], "records": records, "first_at": first_at}
        groups.append(group_of(reason, None, [newest, *found[1:]], examples))
    return sorted(groups, key=lambda each: (-each.records, each.reason))


def _place(header: bytes | None, topic: str) -> tuple[int, int] | None:
    """The partition and offset of the dead letter that a record repeats; None if its header names none of this topic."""
    try:
        own, partition, offset = json.loads(header or b"")[:3]
        return (int(partition), int(offset)) if own == topic else None
    except (ValueError, TypeError):
        return None
