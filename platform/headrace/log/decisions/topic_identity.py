"""Whether Kafka's topic is the one that a log was read from: Kafka gives each topic an id (KIP-516).

Another topic of the same name is one that was deleted and created again, or one of another Kafka cluster.
"""

from __future__ import annotations

from headrace import lake
from headrace.errors import TerminalError


def known_topic_id(path: str, name: str) -> str | None:
    """The id of the topic that a log was read from, as its last commit says; nothing is written.

    In:     path  of the log; `name` of its topic
    Out:    None: there is no log yet, or it does not say
    Raises: LostHistoryError
    """
    commit = lake.last_commit(lake.open_table(path), f"log/{name}")
    state = {} if commit is None else commit.record.get("after", {})
    return state.get("topic_id")


def require_known_topic(name: str, known: str | None, topic_id: str | None) -> None:
    """Refuse another topic of the same name.

    In:     known  the id of the log's topic, and `found`: that of Kafka's; None: it is not known
    Raises: TerminalError
    """
    if known is not None and topic_id is not None and known != topic_id:
        raise TerminalError(
            f"Topic '{name}' was deleted and created again: it is another topic than the log was read from.",
            detail=f"Kafka's topic id is {topic_id}, the log's is {known}.",
            hint="If these are brokers of another cluster, correct HEADRACE_KAFKA_BOOTSTRAP_SERVERS. If not, read the "
            "topic into a new lake, or delete its log and its nodes, which are then built again.",
        )
