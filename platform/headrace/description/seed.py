"""A seed: rows of a table, or of files, with which a topic's log begins before it reads Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.description.formats import Format, PlainValue
from headrace.description.start import normalised_start
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.topic import Topic

TABLE, FILES = "Delta table", "Parquet files"
EARLIEST = "earliest"  # where Kafka is read from in partitions of which a seed with positions has no record


@dataclass(frozen=True)
class Seed:
    """The rows with which a log begins (see `from_table`, `from_files`).

    then  where Kafka goes on after rows without positions: a word, a time, or pairs of partition and offset; None: the rows
          have positions, and Kafka goes on after the last of each partition
    """

    uri: str
    kind: str
    as_of: int | str | None
    raw: bool
    position: tuple[str, str] | None
    timestamp: str | None
    then: str | tuple[tuple[int, int], ...] | None

    def __str__(self) -> str:
        """A few words: the place, the version, and where Kafka goes on."""
        version = "" if self.as_of is None else f" as of {self.as_of}"
        then = dict(self.then) if isinstance(self.then, tuple) else self.then
        return f"{self.kind} {self.uri}{version}, then Kafka from {then or 'the offset after it'}"

    def check(self, topic: Topic) -> None:
        """Raise where a topic's log cannot begin so.

        Raises: DescriptionError naming the topic, the reason and the fix.
        """
        what = f"Topic '{topic.name}': start"
        formats = [each for each in (topic.format, topic.key_format) if isinstance(each, Format)]
        if not self.raw and not all(isinstance(each, PlainValue) for each in formats):
            raise DescriptionError(
                f"{what}: rows of a table can stand for JSON records and plain values alone.",
                hint="Give a table with the bytes of the records, and raw=True.",
            )
        if not self.raw and self.timestamp is None and topic.timestamp is None:
            raise DescriptionError(
                f"{what}: the rows of {self.uri} have no event time.",
                hint="Name a column: hr.from_table(…, timestamp='at'), or give the topic a timestamp.",
            )
        if self.position is None and topic.replay_guard is not None:
            raise DescriptionError(
                f"{what}: rows without positions cannot be judged by the topic's replay guard.",
                hint="Name the columns with partition and offset: position=('partition', 'offset').",
            )


def from_table(
    uri: str,
    *,
    as_of: int | str | datetime | None = None,
    raw: bool = False,
    position: tuple[str, str] | None = None,
    timestamp: str | None = None,
    then: str | datetime | Mapping[int, int] | None = None,
) -> Seed:
    """A topic's `start`: its log begins with the rows of a Delta table, and goes on with Kafka's records.

    In: `as_of`: a version, or a time with its zone; None: the newest version when the log begins, which the log records;
    `raw`: the rows are records as Spark's Kafka source gives them, with `key`, `value`, `partition`, `offset`, `timestamp`
    and perhaps `headers`; else they have the topic's columns, and stand for JSON records or plain values;
    `position`: the columns with partition and offset in Kafka, which goes on after the last of them;
    `timestamp`: the column with Kafka's timestamp, TIMESTAMP or BIGINT in ms;
    `then`: for rows without positions, where Kafka goes on: "earliest", "latest", a time, or the offset of each partition.
    Law: the rows are records of the log. Rows without positions lie before `then` without a gap: in the partition of their
    key, by timestamp.
    Raises: DescriptionError
    """
    return _checked(Seed(uri, TABLE, _version(as_of, uri), raw, position, timestamp, None), then)


def from_files(
    uri: str,
    *,
    raw: bool = False,
    position: tuple[str, str] | None = None,
    timestamp: str | None = None,
    then: str | datetime | Mapping[int, int] | None = None,
) -> Seed:
    """A topic's `start`: as `from_table`, with the Parquet files of a folder, such as an archive of the topic.

    Its parameters are those of `from_table`. Rows that are added to the folder once the log has begun are not read.
    Raises: DescriptionError
    """
    return _checked(Seed(uri, FILES, None, raw, position, timestamp, None), then)


def _checked(seed: Seed, then: str | datetime | Mapping[int, int] | None) -> Seed:
    uri, raw, position, timestamp = seed.uri, seed.raw, seed.position, seed.timestamp
    what = f"start {a_value(uri)}"
    if not isinstance(uri, str) or not uri:
        raise DescriptionError(f"{what} is no place of a table.", hint="Give its URI.")
    if raw:
        if position is not None or timestamp is not None:
            raise DescriptionError(f"{what}: with raw=True columns have the names of Spark's Kafka source.")
        position, timestamp = ("partition", "offset"), "timestamp"
    if (position is None) == (then is None):
        raise DescriptionError(
            f"{what}: give either the columns with the rows' positions, or where Kafka goes on.",
            hint="position=('partition', 'offset'), or then={0: 1200}, 'earliest', 'latest' or a time.",
        )
    pair = None if position is None else tuple(position)
    if pair is not None and (len(pair) != 2 or not all(isinstance(name, str) for name in pair)):
        raise DescriptionError(
            f"{what}: position {a_value(position)} is no pair of columns.",
            hint="Name two: ('partition', 'offset').",
        )
    return replace(seed, position=pair, timestamp=timestamp, then=_then(then, what))


def _version(as_of: int | str | datetime | None, uri: str) -> int | str | None:
    if as_of is None or (isinstance(as_of, int) and not isinstance(as_of, bool) and as_of >= 0):
        return as_of
    found = normalised_start(as_of, f"start {a_value(uri)}: as_of")
    if not found[0].isdigit():
        raise DescriptionError(
            f"start {a_value(uri)}: as_of {a_value(as_of)} is neither a version nor a time."
        )
    return found


def _then(
    then: str | datetime | Mapping[int, int] | None, what: str
) -> str | tuple[tuple[int, int], ...] | None:
    if then is None:
        return None
    if not isinstance(then, Mapping):
        return normalised_start(then, f"{what}: then")
    wrong = [each for pair in then.items() for each in pair if type(each) is not int or each < 0]
    if wrong or not then:
        raise DescriptionError(
            f"{what}: then {a_value(then)} does not name partitions and offsets.",
            hint="Such as {0: 1200, 1: 900}.",
        )
    return tuple(sorted(then.items()))
