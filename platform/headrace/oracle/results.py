"""From a node's description to its oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.oracle import relations
from headrace.oracle.homes import home_of
from headrace.oracle.log import Log, Results

if TYPE_CHECKING:
    from headrace.description import Node, Relation
    from headrace.oracle.values import Identity


def results(node: Node, log: Log) -> Results:
    """The results of a node, computed from its logs.

    In:  log  the rows of its feeds; of all keys, or of some
    Out: the rows of its table, what is still open, and the fate of each record
    Law: a function of the description and of the logs alone.
    """
    outcome: Results = home_of(node).results(node, read_by(node, log))
    return outcome


def changes(node: Relation, log: Log) -> dict[tuple[Identity, int], relations.Change]:
    """The changes of a table, a join, or aggregates that are revised: one for each key and log commit that changes it.

    Out: by key and commit time the row before and the row after; None: there is none
    """
    return relations.changes(node, read_by(node, log))


def read_by(node: Node, log: Log) -> Log:
    """The logs as a node reads them: which topics drive its stream time."""
    driving = getattr(home_of(node), "driving", None)
    topics = node.topics if driving is None else driving(node)
    return replace(log, driving=frozenset(topic.name for topic in topics))
