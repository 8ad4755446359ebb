"""The suppressor's own stream time and expiry time in each partition, before and after each row.

The own stream time is the highest stream time of the partition's rows, and timestamp of its updates. So it is never below
the partition's stream time. The expiry time is the highest that own stream time less the time limit in force has been:
waits that were opened at or before it are over. So a longer limit calls back nothing that has left, and a shorter one is in
force for what waits.

Source: Kafka Streams, KTableSuppressProcessorSupplier.java, `expiryTime`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import NO_TIME, before, begins, running_max


@dataclass(frozen=True)
class Timeline:
    """Times of rows that are ordered by partition and place; NO_TIME where there is none yet.

    was_ms     own stream time before the row
    own_ms     own stream time after it
    before_ms  expiry time before the row
    after_ms   expiry time after it
    """

    was_ms: np.ndarray
    own_ms: np.ndarray
    before_ms: np.ndarray
    after_ms: np.ndarray


def timeline(
    partition: np.ndarray,
    time_ms: np.ndarray,
    limit_ms: np.ndarray,
    known_own_ms: np.ndarray,
    known_expiry_ms: np.ndarray,
) -> Timeline:
    """The times of partitions along their rows.

    In:     partition  number of each row's partition, rising
            time_ms    stream time of a row, or a later timestamp of its update; NO_TIME: it has none
            limit_ms   the limit in force at the row
            known_…    each partition's own stream time and expiry time before these rows
    """
    first = begins(partition)
    time_ms = np.where(first, np.maximum(time_ms, known_own_ms[partition]), time_ms)
    own_ms = running_max(first, time_ms)
    expiry_ms = np.where(own_ms == NO_TIME, NO_TIME, own_ms - limit_ms)
    known = known_expiry_ms[partition]
    after_ms = running_max(first, np.where(first, np.maximum(expiry_ms, known), expiry_ms))
    was_ms = np.where(first, known_own_ms[partition], before(first, own_ms, NO_TIME))
    return Timeline(was_ms, own_ms, np.where(first, known, before(first, after_ms, NO_TIME)), after_ms)


def clock_of(
    opened_ms: np.ndarray, limit_ms: np.ndarray, was_ms: np.ndarray, own_ms: np.ndarray
) -> np.ndarray:
    """The clock of rows that leave at a later row than the one that opened their wait (L32).

    In:  opened_ms  when the wait began; of the later row: the limit in force, and own stream time before and after
    Law: not below the time before that row, and not beyond the time after it. It is the end of the wait, unless a shorter
         limit or a bound ends the wait at another time.
    """
    return np.asarray(np.minimum(own_ms, np.maximum(opened_ms + limit_ms, was_ms)))
