"""Kafka, as far as the runtime asks it: settings, partitions and offsets."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from headrace.description.start import start_ms
from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.settings.kafka import KafkaSettings
from headrace.spark.brokers.kafka_refusals import MISSING, refusal_of, settings_refused
from headrace.spark.brokers.topic_limits import TopicLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.description import Topic

__all__ = ["KafkaSettings", "KafkaTopic"]
TIMEOUT_SECONDS = 5
TOPIC_SECONDS = 5  # for which a log waits for a topic that its broker does not know
# Kinds of errors that say that nobody has answered.
NO_ANSWER = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}
NO_TOPIC_ID = "A" * 22  # sixteen zero bytes, in base 64


class BrokerUnreachableError(TransientError):
    """No broker answered; it may come back."""


class LostOffsetsError(TerminalError):
    """Kafka no longer has records that the log still needs."""


class TopicBehindError(TransientError):
    """Kafka's records end before the log does."""


patiently = retry(
    retry=retry_if_exception_type(BrokerUnreachableError),
    stop=stop_after_attempt(2),
    wait=wait_exponential_jitter(multiplier=0.5, max=5),
    reraise=True,
)


class KafkaTopic:
    """One topic on the broker."""

    def __init__(self, name: str, settings: KafkaSettings, options: Mapping[str, str] | None = None) -> None:
        """Nothing is asked of the broker yet.

        In: options  of librdkafka, beside the settings and before them
        """
        self.name, self.settings, self.options = name, settings, dict(options or {})
        # What the client said while nobody waited for an answer, such as why TLS failed.
        self._messages: set[str] = set()
        self._committers: dict[str, _Committer] = {}

    @classmethod
    def of(cls, topic: Topic, settings: KafkaSettings) -> KafkaTopic:
        """A described topic, reached by its own settings before the others."""
        return cls(topic.name, settings.of(topic.options))

    def partitions(self, *, patience_seconds: int = 0) -> list[int]:
        """Its partitions.

        In:     patience_seconds  a broker that has just started, or a topic that has just been created, takes a moment
        Raises: BrokerUnreachableError; TerminalError when the broker has no such topic
        """
        for left in range(patience_seconds, -1, -1):
            if known := self._partitions():
                return known
            time.sleep(min(left, 1))
        raise TerminalError(
            f"Topic '{self.name}' does not exist on {self.settings.bootstrap_servers}.",
            hint="Create it, or correct the topic's name or the broker's address.",
        )

    @patiently
    def _partitions(self) -> list[int]:
        """Empty: the broker knows no such topic now."""
        try:
            topic = self._admin.list_topics(self.name, timeout=TIMEOUT_SECONDS).topics[self.name]
        except KafkaException as error:
            raise self._unreachable(error) from error
        if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise self._unreachable(KafkaException(topic.error))  # such as a leader that is not elected yet
        return [] if topic.error is not None else sorted(topic.partitions)

    @patiently
    def topic_id(self) -> str | None:
        """Kafka's id of the topic (KIP-516): another topic of the same name has another. None: the broker gives none."""
        asked = self._admin.describe_topics(TopicCollection([self.name]), request_timeout=TIMEOUT_SECONDS)
        try:
            found = str(asked[self.name].result(TIMEOUT_SECONDS + 2).topic_id)
        except (KafkaException, TimeoutError) as error:
            raise self._unreachable(error) from error
        return None if found == NO_TOPIC_ID else found

    def earliest(self, partitions: Iterable[int]) -> dict[int, int]:
        """For each partition the first offset that Kafka still has."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """For each partition its last stable offset: all records before it are committed or aborted."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def high_watermarks(self, partitions: Iterable[int]) -> dict[int, int]:
        """For each partition the offset after its last record, those of open transactions included."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(partitions, latest, IsolationLevel.READ_UNCOMMITTED)

    def at_time(self, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """For each partition the first offset with a record timestamp at or after a time; else its end."""
        partitions = list(partitions)
        found, ends = self._offsets(partitions, OffsetSpec.for_timestamp(time_ms)), self.ends(partitions)
        return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}

    def commit_offsets(self, group: str, offsets: Mapping[int, int]) -> None:
        """Make these the offsets of a consumer group that has no members.

        Raises: BrokerUnreachableError; TerminalError when the group may not be written, or has members
        """
        if group not in self._committers:
            self._committers[group] = self._committer(group)
        try:
            found = self._committers[group].commit(sorted(offsets.items()))
        except KafkaException as error:
            raise self._group_refused(group, error) from error
        if found is not None:
            raise self._group_refused(group, KafkaException(found))

    def _committer(self, group: str) -> _Committer:
        try:
            return _Committer(
                self.name, {**self.settings.client_options(), **self.options, "group.id": group}
            )
        except KafkaException as error:
            raise self._unreachable(error) from error

    def _group_refused(self, group: str, error: KafkaException) -> HeadraceError:
        if error.args[0].code() in NO_ANSWER or error.args[0].retriable():
            return self._unreachable(error)
        return TerminalError(
            f"Topic '{self.name}': consumer group '{group}' does not take offsets.",
            detail=str(error),
            hint="Let the client write the group, or name another one by HEADRACE_KAFKA_GROUP; an empty name tells none.",
        )

    @patiently
    def limits(self) -> TopicLimits:
        """Which records the topic takes; Kafka's defaults when we may not ask."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name)
        asked = self._admin.describe_configs([resource], request_timeout=TIMEOUT_SECONDS)
        try:
            entries = asked[resource].result(TIMEOUT_SECONDS + 2)
            return TopicLimits.of({name: str(entry.value) for name, entry in entries.items()})
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return TopicLimits()
            raise self._unreachable(error) from error
        except TimeoutError as error:
            raise self._unreachable(error) from error

    @patiently
    def _offsets(
        self,
        partitions: Iterable[int],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        wanted = {TopicPartition(self.name, p): spec for p in partitions}
        try:
            futures = self._admin.list_offsets(
                wanted, isolation_level=isolation, request_timeout=TIMEOUT_SECONDS
            )
            return {tp.partition: future.result(TIMEOUT_SECONDS + 2).offset for tp, future in futures.items()}
        except (KafkaException, TimeoutError) as error:
            raise self._unreachable(error) from error

    @cached_property
    def _admin(self) -> AdminClient:
        # One client for all questions: librdkafka drops the answers of a client that is gone.
        return admin_client(self.settings, self.options, self._messages)

    def _unreachable(self, error: Exception) -> BrokerUnreachableError:
        if "_admin" in vars(self):  # it may be its making that failed
            self._admin.poll(0)
        detail = "; ".join([str(error), *sorted(self._messages)])
        answered = MISSING in str(error)  # then what clients said before is no reason
        found = refusal_of(str(error) if answered else "; ".join(self._messages) or str(error))
        return BrokerUnreachableError(
            f"Topic '{self.name}': Kafka at {self.settings.bootstrap_servers} {found.reason}.",
            detail=detail,
            hint=f"{found.fix} The stream tries again by itself.",
        )


class _Committer:
    """Commits offsets of a topic as a consumer of a group that never joins it.

    The admin client's request for it ends the whole process when it had timed out and the broker comes back (issue 4605 of
    librdkafka). A consumer's commit does not; its answer is waited for, but not for ever.
    """

    def __init__(self, topic: str, options: Mapping[str, Any]) -> None:
        self._topic, self._asked = topic, False
        self._answer: KafkaError | None = None
        own = {"log_level": 2, "enable.auto.commit": False, "on_commit": self._answered}
        self._consumer = Consumer({**options, **own})

    def commit(self, offsets: Sequence[tuple[int, int]]) -> KafkaError | None:
        """Commit the next offset of some partitions. Out: why not; None: it is done.

        One that nobody has answered is tried again by the client: so it comes to its end before the next one begins.

        Raises: KafkaException when no answer comes
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        self._wait(deadline)
        self._asked = True
        places = [TopicPartition(self._topic, p, offset) for p, offset in offsets]
        self._consumer.commit(offsets=places, asynchronous=True)
        self._wait(deadline)
        return self._answer

    def _wait(self, deadline: float) -> None:
        while self._asked:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            self._consumer.poll(0.05)

    def _answered(self, error: KafkaError | None, places: Sequence[TopicPartition]) -> None:
        failed = [place.error for place in places if place.error is not None]
        self._asked, self._answer = False, error or (failed[0] if failed else None)


def admin_client(settings: KafkaSettings, options: Mapping[str, str], messages: set[str]) -> AdminClient:
    """A client for questions to a broker. Its own log is silenced.

    In:     options  of librdkafka, before the settings
            messages  gains what the client says of its troubles, for errors in our words
    Raises: TerminalError for settings with which no client can be made
    """
    own: dict[str, Any] = {"log_level": 2, "error_cb": lambda error: messages.add(error.str())}
    own["allow.auto.create.topics"] = False  # or a broker makes a topic because somebody looks for it
    try:
        return AdminClient({**settings.client_options(), **options, **own})
    except KafkaException as error:
        raise settings_refused(settings.bootstrap_servers, error) from None


def first_offsets(start: str, kafka: KafkaTopic, partitions: Iterable[int]) -> dict[int, int]:
    """Where a new log begins: a topic's `start` (earliest, latest or a time) as offsets."""
    partitions = list(partitions)
    if start == "earliest":
        return kafka.earliest(partitions)
    if start == "latest":
        return kafka.ends(partitions)
    time_ms = start_ms(start)
    assert time_ms is not None
    return kafka.at_time(partitions, time_ms)


def start_offsets(
    start: str | Mapping[int, int], kafka: KafkaTopic, partitions: Iterable[int]
) -> dict[int, int]:
    """The offset of each partition: of a `start`, or those stated; of partitions that are not stated, the earliest."""
    if isinstance(start, str):
        return first_offsets(start, kafka, partitions)
    stated = {p: start[p] for p in partitions if p in start}
    return stated | kafka.earliest(p for p in partitions if p not in start)


def lost_offsets(next_offsets: Mapping[int, int], earliest: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """For each partition that lost records: the first offset needed and the first still to be had."""
    return {p: (need, earliest[p]) for p, need in next_offsets.items() if earliest.get(p, need) > need}


def require_no_loss(topic: str, lost: Mapping[int, tuple[int, int]], hint: str | None = None) -> None:
    """Raise when retention overtook the log.

    In:     hint  what to do; None: the gap can be accepted
    Raises: LostOffsetsError naming every partition and stretch, and what to do
    """
    if lost:
        stretches = "; ".join(f"partition {p}: offsets {a} to {b - 1}" for p, (a, b) in sorted(lost.items()))
        raise LostOffsetsError(
            f"Topic '{topic}': Kafka has deleted records that the log does not hold yet.",
            detail=stretches,
            hint=hint
            or f"If the loss is acceptable, record it: headrace accept-gap {topic}. Then start the stream again.",
        )


def require_same_topic(topic: str, next_offsets: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Raise when the log holds offsets that Kafka has not given out: it is not the topic that the log was read from.

    Raises: TopicBehindError naming every partition; transient, for a broker that has just taken over may lag.
    """
    behind = {p: ends.get(p) for p, need in next_offsets.items() if need > ends.get(p, 0)}
    if behind:
        found = [
            f"partition {p}: the log needs offset {next_offsets[p]}, "
            + ("which partition Kafka does not have" if end is None else f"Kafka ends before {end}")
            for p, end in sorted(behind.items())
        ]
        raise TopicBehindError(
            f"Topic '{topic}': Kafka's records end before the log does.",
            detail="; ".join(found),
            hint="If the topic was deleted and created again, it is another topic: read it into a new lake.",
        )
