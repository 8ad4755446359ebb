"""Nodes for the laws of the kernel that give records again: those without copies, and those of several branches."""

from __future__ import annotations

from headrace.description import Merged
from tests.laws.kernel.logs import SECOND
from tests.laws.kernel.subjects import Subject, T, U, topic


def distinct_subjects() -> list[Subject]:
    """By the record key and by a value, of one topic and of two; the grace is shorter or longer than the copies' time."""
    small = topic("t", "value BIGINT")
    return [
        Subject(f"distinct_{number}", made.named("distinct"))
        for number, made in enumerate(
            (
                T.distinct(within=3 * SECOND),
                T.merge(U).distinct("key", within=10 * SECOND, grace=2 * SECOND),
                T.merge(U).distinct("key", within=500, grace=20 * SECOND),
                small.distinct("value", "key", within=60 * SECOND, grace=5 * SECOND),
                small.distinct("value", within=6 * SECOND),
            ),
            1,
        )
    ]


def merged_subjects() -> list[Subject]:
    """Branches of one topic, with and without another topic on a side."""
    columns = ("key", "value")
    return [
        Subject("merged_branches", Merged(T.stream, T.select(*columns)).named("merged")),
        Subject("merged_with_another", Merged(T.merge(U), T.select(*columns)).named("merged")),
    ]
