"""One description of a topic for all pipelines of a lake: it is noted there, and another one is refused.

The run that writes a topic's log decides by the description what stands in it, for all who read it. Several pipelines may
read a topic, and one of their runs writes its log: all that run have to describe the topic alike. To change the
description, a person stops them all. A pipeline that has the topic for itself changes it as far as the log allows.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.description import to_ddl
from headrace.description.fingerprint import differences
from headrace.description.wording import listed
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.notices import Names
from headrace.writing.leases.lease import lease_taken_ms
from headrace.writing.leases.readers import readers_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.description import Topic
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock


class OtherTopicError(TerminalError):
    """Another pipeline describes the topic in another way."""


def description_of(topic: Topic) -> dict[str, Any]:
    """All that alters the log of a topic, as JSON. Settings of Kafka's client do not, and may be secret."""
    guard = topic.replay_guard
    return {
        "key": to_ddl(topic.key_columns),
        "value": to_ddl(topic.value_columns),
        "timestamp": topic.timestamp,
        **topic.formats,
        "idle_timeout_ms": topic.idle_timeout_ms,
        "start": str(topic.start),
        "max_future_ms": topic.max_future_ms,
        "replay_guard": None if guard is None else asdict(guard),
        **({"keep_raw": topic.keep_raw} if topic.keep_raw else {}),
    }


def others_reading(
    lake: Lake, topic: str, own: Collection[str], clock: Clock, names: Names = small_files.names
) -> list[str]:
    """The nodes of other pipelines that run and read a topic. In: own  the nodes of this one."""
    readers = [name for name in readers_of(lake, topic, names) if name not in own]
    return [name for name in readers if lease_taken_ms(lake.lease(f"node/{name}"), clock) is not None]


def require_one_description(lake: Lake, topic: Topic, own: Collection[str], clock: Clock) -> None:
    """Refuse a description of a topic that is not that of the other pipelines which run and read it.

    In:     own  the nodes of this pipeline
    Raises: OtherTopicError naming what differs
    """
    stored, mine = small_files.read_json(lake.topic(topic.name)), description_of(topic)
    if stored is None or stored == mine:
        return
    others = others_reading(lake, topic.name, own, clock)
    if others:
        raise OtherTopicError(
            f"Topic '{topic.name}' is described in another way by the pipeline of {listed(others)}.",
            detail=f"theirs -> this one: {'; '.join(differences(stored, mine))}",
            hint="Share one description. To change it, stop all streams that read the topic, and change it everywhere.",
        )


def note_description(lake: Lake, topic: Topic) -> None:
    """Let this be the topic's description; the caller holds the lease of its log."""
    said = json.loads(json.dumps(description_of(topic)))
    if small_files.read_json(lake.topic(topic.name)) != said:
        small_files.write_json(lake.topic(topic.name), said)
