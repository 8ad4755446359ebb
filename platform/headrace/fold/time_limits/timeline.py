"""The suppressor's own stream time and expiry time in each partition, before and after each row.

The own stream time is the highest timestamp of updates and ticks. The expiry time is the highest that own stream time
less the time limit in force has been: waits that were opened at or before it are over. So a longer limit calls back
nothing that has left, and a shorter one is in force for what waits.

Source: Kafka Streams, KTableSuppressProcessorSupplier.java, `expiryTime`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import NO_TIME, before, begins, running_max


@dataclass(frozen=True)
class Timeline:
    """Times of rows that are ordered by partition and place; NO_TIME where there is none yet.

    own_ms     own stream time after the row
    before_ms  expiry time before the row
    after_ms   expiry time after it
    """

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
            time_ms    timestamp of an update, stream time of a tick; NO_TIME for a row that sets limits
            limit_ms   the limit in force at the row
            known_…    each partition's own stream time and expiry time before these rows
    """
    first = begins(partition)
    time_ms = np.where(first, np.maximum(time_ms, known_own_ms[partition]), time_ms)
    own_ms = running_max(first, time_ms)
    expiry_ms = np.where(own_ms == NO_TIME, NO_TIME, own_ms - limit_ms)
    known = known_expiry_ms[partition]
    after_ms = running_max(first, np.where(first, np.maximum(expiry_ms, known), expiry_ms))
    return Timeline(own_ms, np.where(first, known, before(first, after_ms, NO_TIME)), after_ms)
