"""A fingerprint of what alters a node's rows, so that a changed description is noticed and can be backfilled.

Law: equal fingerprints give equal rows from equal logs. A node's result is a function of the log alone, so
what the sequencer decides and writes into the log (start, idle timeout, dead letters, event time) is not part
of it; neither are the node's name, description and owners. What a transform calls in turn is not seen.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.description.code_identity import digest, identity_of
from headrace.description.schema import to_ddl
from headrace.description.steps import Step, Transform

if TYPE_CHECKING:
    from headrace.description.node import WindowedAggregate
    from headrace.description.stream import Branch

VERSION = 1


def fingerprint_of(node: WindowedAggregate) -> str:
    """The sha256, in hex, of the node's canonical JSON."""
    content = {
        "version": VERSION,
        "branches": [_branch(branch) for branch in node.stream.branches],
        "by": node.by,
        "window": asdict(node.window),
        "grace_ms": node.grace_ms,
        "aggregates": [[name, asdict(aggregate)] for name, aggregate in node.aggregates],
        "suppression": type(node.suppression).__name__ if node.suppression else None,
    }
    return digest(json.dumps(content, sort_keys=True, separators=(",", ":")))


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
