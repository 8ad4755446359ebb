"""Requests of people to a log's sequencer: files, which the holder of the log's lease carries out.

A request is a file in the lake, removed once its control row is in the log. The row names the file. So a request is not
carried out twice if the process died before it could remove the file. Requests are carried out in the order of their names,
which begin with the time. A file that is no request is set aside as `<name>.json.unreadable`; a file that cannot be read
stays where it is. Neither stops other requests.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import structlog

from headrace.engine.slices.log_slices import whole_log
from headrace.lake import small_files
from headrace.lake.notices import Names
from headrace.log.decisions.limits import requests_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.lake.paths import Lake
    from headrace.log.sequencer import Sequencer

logger = structlog.get_logger(__name__)
SUFFIX = ".json"


def ask(lake: Lake, topic: str, limits: Mapping[str, Any]) -> str:
    """Ask for limits of a node; the request's name.

    In: limits  `node`, `limits` and `elsewhere`, as `Sequencer.set_limits` takes them
    """
    name = f"{time.time_ns() // 1_000_000:015d}-{uuid.uuid4().hex[:8]}"
    small_files.write_json(_file(lake, topic, name), limits)
    return name


def pending(lake: Lake, topic: str, names: Names = small_files.names) -> list[str]:
    """The names of the requests that wait, oldest first."""
    files = names(lake.requests(topic))
    return [name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX) and name[0] != "."]


def withdraw(lake: Lake, topic: str, name: str) -> None:
    """Remove a request that is carried out, or that nobody waits for any more."""
    small_files.delete(_file(lake, topic, name))


def carry_out(lake: Lake, sequencer: Sequencer, names: Names = small_files.names) -> int:
    """Record what is asked for; how much that was. The caller holds the log's lease."""
    topic = sequencer.topic.name
    waiting = pending(lake, topic, names)
    if not waiting:
        return 0
    known = requests_in(whole_log(lake.log(topic)).controls())
    done = 0
    for name in waiting:
        try:
            asked = _read(lake, topic, name)
        except (ValueError, RecursionError) as error:
            logger.warning("unreadable request, set aside", topic=topic, request=name, error=str(error))
            small_files.copy(_file(lake, topic, name), f"{_file(lake, topic, name)}.unreadable")
            asked = None
        except OSError as error:  # such as a folder, or a file that we may not read
            logger.warning("request not read", topic=topic, request=name, error=str(error))
            continue
        if asked is not None and name not in known:
            sequencer.set_limits(
                asked["node"], asked["limits"], name, elsewhere=asked.get("elsewhere") is True
            )
            done += 1
        withdraw(lake, topic, name)
    return done


def _read(lake: Lake, topic: str, name: str) -> dict[str, Any] | None:
    """The node and its limits, as `ask` has written them; None: the request is gone.

    Raises: ValueError when it says nothing of the kind
    """
    asked = small_files.read_json(_file(lake, topic, name))
    match asked:
        case None:
            return None
        case {"node": str(), "limits": dict(limits)} if all(
            value is None or (type(value) is int and 0 <= value < 2**63) for value in limits.values()
        ):
            return dict(asked)
    raise ValueError(f"not a node and its limits: {json.dumps(asked)[:200]}")


def _file(lake: Lake, topic: str, name: str) -> str:
    return f"{lake.requests(topic)}/{name}{SUFFIX}"
