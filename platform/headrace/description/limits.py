"""Limits of a suppression that a person changes while its stream runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.description.durations import Duration, duration_ms, format_duration
from headrace.description.suppression import SPILL, Policy, UntilTimeLimit
from headrace.description.unnamed import with_unnamed
from headrace.description.wording import listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.node import Node

Limits = Mapping[str, int | None]  # by the names below; None: no bound
LIMIT_MS = "limit_ms"
BOUNDS = ("max_records", "max_bytes")


def limits_asked(
    time_limit: Duration | None = None, max_records: int | None = None, max_bytes: int | None = None
) -> Limits:
    """Limits as a person asks for them.

    In:     None: it stays as it is; a bound of 0: no bound
    Raises: DescriptionError when nothing is asked for.
    """
    asked = {} if time_limit is None else {LIMIT_MS: duration_ms(time_limit, "time_limit")}
    bounds = {"max_records": max_records, "max_bytes": max_bytes}
    limits = asked | {name: value or None for name, value in bounds.items() if value is not None}
    if not limits:
        raise DescriptionError(
            "No limit is given.", hint="Give a time limit, max_records or max_bytes (0: no bound)."
        )
    return limits


def policy_of(node: Node) -> Policy:
    """The policy by which a node is suppressed, as described.

    Raises: DescriptionError when it is not suppressed.
    """
    policy = node.suppressed_by
    if policy is None:
        raise DescriptionError(
            f"Node '{node.required_name}' is not suppressed: it has no limits.",
            hint="Ask a node with .suppress(…).",
        )
    return policy


def is_suppressed(node: Node) -> bool:
    """Whether a node has a policy."""
    return node.suppressed_by is not None


def suppressed_at(node: Node) -> Node:
    """The node whose limits people mean when they name one: itself, or the suppressed step without a name that it reads.

    Raises: DescriptionError when neither is suppressed, or several such steps are
    """
    if is_suppressed(node):
        return node
    steps = [step for step in with_unnamed([node]) if is_suppressed(step)]
    if len(steps) > 1:
        raise DescriptionError(
            f"Node '{node.required_name}' reads several suppressed steps without a name.",
            detail="; ".join(step.in_words for step in steps),
            hint="Name the one that is meant, with .suppress(…).named('…').",
        )
    if not steps:
        policy_of(node)  # says what is missing
    return steps[0]


def with_limits(policy: Policy, limits: Limits) -> Policy:
    """The policy with other limits.

    Raises: DescriptionError for a value or a name that it cannot have.
    """
    known = (LIMIT_MS, *BOUNDS) if isinstance(policy, UntilTimeLimit) else BOUNDS
    unknown = sorted(limits.keys() - set(known))
    if unknown:
        raise DescriptionError(f"{unknown[0]}: this suppression has only {listed(known)}.")
    bounds = {name: limits[name] for name in BOUNDS if name in limits}
    if bounds and policy.bound.when_full == SPILL:
        raise DescriptionError(
            f"{', '.join(bounds)}: with when_full='{SPILL}' a bound alters nothing.",
            hint="Describe the node with when_full='shut_down' or 'emit_early'.",
        )
    changed = replace(policy, bound=replace(policy.bound, **bounds))  # type: ignore[arg-type]
    if isinstance(changed, UntilTimeLimit) and LIMIT_MS in limits:
        return replace(changed, limit_ms=limits[LIMIT_MS])  # type: ignore[arg-type]
    return changed


def limited(policy: Policy, each: Iterable[Limits]) -> Policy:
    """The policy after limits were set one after the other.

    Law: limits that the policy cannot have alter nothing.
    """
    for limits in each:
        with suppress(DescriptionError):
            policy = with_limits(policy, limits)
    return policy


def limits_of(policy: Policy) -> Limits:
    """The limits of a policy."""
    limit = {LIMIT_MS: policy.limit_ms} if isinstance(policy, UntilTimeLimit) else {}
    return {**limit, **{name: getattr(policy.bound, name) for name in BOUNDS}}


def limits_in_words(limits: Limits) -> str:
    """Limits for people."""
    shown = {LIMIT_MS: "time limit"}
    values = {
        name: "none" if value is None else format_duration(value) if name == LIMIT_MS else f"{value:,}"
        for name, value in limits.items()
    }
    return ", ".join(f"{shown.get(name, name)} {value}" for name, value in values.items())
