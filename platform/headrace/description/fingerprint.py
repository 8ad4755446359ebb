"""A fingerprint of what alters a node's rows, so that a changed description is noticed and can be backfilled.

Law: equal fingerprints give equal rows from equal logs. A node's result is a function of the log alone, so
what the sequencer decides and writes into the log (start, idle timeout, dead letters, event time, replays) is not
part of it; neither are the node's name (but limits that people set in the log are those of a name), description, owners
and sinks, nor columns of a topic's value that it does not read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.description.code_text import digest
from headrace.description.schema import to_ddl
from headrace.description.shape import Shape
from headrace.description.source_chain import SOURCE_CHAIN
from headrace.description.spark_steps import each_with_need, rules_of_spark
from headrace.description.steps import Step, Transform, reads_chain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.description.stream import Branch, Stream

VERSION = 2


def digest_of(rules: dict[str, Any]) -> str:
    """The sha256, in hex, of rules as canonical JSON."""
    return digest(json.dumps({"version": VERSION, **rules}, sort_keys=True, separators=(",", ":")))


def rules_of(stream: Stream, needed: Iterable[str]) -> dict[str, Any]:
    """The rules that some columns of a stream depend on: topics with the columns that are read, and the steps.

    In: needed  the columns of the stream that its node reads
    """
    branches = [_branch(branch, needed) for branch in stream.branches]
    return {"branches": branches, **({"key_by": stream.new_key} if stream.new_key else {})}


def differences(stored: Any, described: Any, where: str = "") -> list[str]:
    """Where two rules differ, each as `path: stored -> described`."""
    if isinstance(stored, dict) and isinstance(described, dict):
        names = [*stored, *(name for name in described if name not in stored)]
        return [
            change
            for name in names
            for change in differences(stored.get(name), described.get(name), f"{where}.{name}".lstrip("."))
        ]
    if isinstance(stored, list) and isinstance(described, list) and len(stored) == len(described):
        pairs = enumerate(zip(stored, described, strict=True))
        return [change for at, (one, other) in pairs for change in differences(one, other, f"{where}[{at}]")]
    return [] if stored == described else [f"{where}: {json.dumps(stored)} -> {json.dumps(described)}"]


def _branch(branch: Branch, needed: Iterable[str]) -> dict[str, Any]:
    topic, read = branch.topic, _read(branch, needed)
    value = [column for column in topic.value_columns if read is None or column.name.lower() in read]
    other = topic.chain_header != SOURCE_CHAIN and any(map(reads_chain, branch.steps))
    return topic.rules() | {
        **({"chain_header": topic.chain_header} if other else {}),
        "topic": topic.name,
        "key": to_ddl(topic.key_columns),
        "value": to_ddl(tuple(value)),
        "steps": rules_of_steps(each_with_need(branch.steps, Shape(topic.columns, topic.types))),
    }


def _read(branch: Branch, needed: Iterable[str]) -> frozenset[str] | None:
    """Names, in lower case, among which are all columns of the topic that a branch needs; None: it may need any."""
    read = {name.lower() for name in needed}
    for step in branch.steps:
        if step.reads is None:
            return None
        read |= {name.lower() for name in step.reads}
    return frozenset(read)


def rules_of_steps(needs: Iterable[tuple[Step, bool]]) -> list[dict[str, Any]]:
    """Row-wise steps, as JSON. In: each with whether only Spark computes it."""
    return [_step(step) | rules_of_spark(needed=by_spark) for step, by_spark in needs]


def _step(step: Step) -> dict[str, Any]:
    kind = type(step).__name__
    if not isinstance(step, Transform):
        return {"step": kind, **asdict(step)}
    columns = None if step.columns is None else to_ddl(step.columns)
    return {"step": kind, "columns": columns, "function": step.code}
