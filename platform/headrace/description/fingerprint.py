"""A fingerprint of what alters a node's rows, so that a changed description is noticed and can be backfilled.

Law: equal fingerprints give equal rows from equal logs. A node's result is a function of the log alone, so
what the sequencer decides and writes into the log (start, idle timeout, dead letters, event time, replays) is not
part of it; neither are the node's name, description, owners and sinks. What a transform calls in turn is not seen.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.description.code_identity import digest, identity_of
from headrace.description.schema import to_ddl
from headrace.description.steps import Step, Transform

if TYPE_CHECKING:
    from headrace.description.stream import Branch, Stream

VERSION = 1


def digest_of(rules: dict[str, Any]) -> str:
    """The sha256, in hex, of rules as canonical JSON."""
    return digest(json.dumps({"version": VERSION, **rules}, sort_keys=True, separators=(",", ":")))


def rules_of(stream: Stream) -> dict[str, Any]:
    """What a stream's rows depend on: topics with their columns, and the steps."""
    return {"branches": [_branch(branch) for branch in stream.branches]}


def _branch(branch: Branch) -> dict[str, Any]:
    topic = branch.topic
    return {
        "topic": topic.name,
        "key": to_ddl(topic.key_columns),
        "value": to_ddl(topic.value_columns),
        "steps": [_step(step) for step in branch.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    kind = type(step).__name__
    if not isinstance(step, Transform):
        return {"step": kind, **asdict(step)}
    columns = None if step.columns is None else to_ddl(step.columns)
    return {"step": kind, "columns": columns, "function": identity_of(step.function)}
