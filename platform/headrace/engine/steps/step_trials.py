"""Evaluate the steps of a node for parts of an increment, in jobs that keep nothing.

Spark holds the rows meanwhile, so such a job reads no file: what fails in it is a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.engine.slices.feeds import NodeRows
from headrace.engine.steps.faulty_step import fate_and_reason
from headrace.engine.steps.halving import Tries
from headrace.engine.steps.unusable import PLACE, POSITION, Place, Unusable, has_open_fate
from headrace.fold.values.columns import int64
from headrace.spark.errors.step_errors import raised_for_a_row
from headrace.spark.rows.varying import varying

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

NOT_READ = (
    *("root_topic", "root_partition", "root_offset", "ordinals", "path"),
    *("raw_key", "raw_value"),
)


class Trials:
    """Evaluates the steps of a node for parts of an increment."""

    def __init__(
        self, rows: NodeRows, logs: Mapping[str, DataFrame], known: Sequence[Unusable], tries: Tries
    ) -> None:
        """Let Spark hold the rows. In: known  records that are left out."""
        self._rows, self._known, self._tries = rows, known, tries
        # Which part of a feed's steps was at fault last, by topic.
        self._likely: dict[tuple[str, str], int | None] = {}
        self._logs = {topic: log.drop(*NOT_READ).persist() for topic, log in logs.items()}

    def close(self) -> None:
        """Let go of the rows."""
        for held in self._logs.values():
            held.unpersist()

    @cached_property
    def places(self) -> pa.Table:
        """Where the records are that steps may be evaluated for, in the order of the log: the columns of PLACE."""
        is_open = has_open_fate(deletes=any(feed.deletes for feed in self._rows.stepped.values()))
        columns = [expression.alias(name) for name, expression in _place().items()]
        found = [held.where(is_open).select(*columns).toArrow() for held in self._logs.values()]
        return pa.concat_tables(found).sort_by([(name, "ascending") for name in PLACE])

    def place(self, at: int) -> Place:
        """One of them."""
        return {name: self.places[name][at].as_py() for name in self.places.column_names}

    @cached_property
    def commits(self) -> Sequence[int]:
        """The number of the first place of each log commit, and the number of places."""
        at_ms = int64(self.places["ingested_ms"])
        return [*np.flatnonzero(np.diff(at_ms, prepend=-1)).tolist(), len(at_ms)]

    def fails(self, first: int, end: int) -> bool:
        """Whether steps raise for the records from one place up to another, which is left out."""
        part = self._part(self.place(first), self.place(end - 1))
        return self.raised([self._rows.evaluated(part, self._known)]) is not None

    def unusable(self, at: int) -> Sequence[Unusable]:
        """The fate and the reason of one record, for each feed that cannot use it; empty if no step raises for it alone."""
        place, found = self.place(at), []
        part = self._part(place, place)
        for name, feed in self._rows.stepped.items():
            if place["topic"] in feed.topics and (said := self._raised_by(name, part)) is not None:
                step = (name, place["topic"])
                log = part[place["topic"]]
                fate, reason, likely = fate_and_reason(
                    feed, place["topic"], log, said, self, self._likely.get(step)
                )
                self._likely[step] = likely
                found.append(Unusable(name, **place, fate=fate, reason=reason))
        return found

    def limited(self, tries: int) -> Trials:
        """The same trials for a part of the search, which has so many tries of those that are left, and nothing learnt."""
        part = copy(self)
        part._tries, part._likely = Tries(tries, self._tries), {}
        return part

    def raises_alone(self, known: Unusable) -> bool:
        """Whether a feed cannot use a record."""
        return self._raised_by(known.feed, self._part(known.place, known.place)) is not None

    def _raised_by(self, feed: str, part: Mapping[str, DataFrame]) -> str | None:
        return self.raised([self._rows.evaluated(part, self._known, only=feed)])

    def raised(self, frames: Sequence[DataFrame]) -> str | None:
        """Evaluate rows: what is said of one that raises; None if nothing raises."""
        self._tries.spend()
        # Every column of every row; `noop`, Spark's sink for this, takes no column of the type INTERVAL.
        evaluated = (frame._jdf.queryExecution().toRdd() for frame in frames)
        try:
            reduce(lambda one, other: one.union(other), evaluated).count()
        except Exception as error:
            said = raised_for_a_row(error)
            if said is None:
                raise
            return said
        return None

    def rows(self, frame: DataFrame) -> Sequence[Row]:
        """Rows for which no step raises."""
        self._tries.spend()
        return frame.collect()

    def _part(self, first: Place, last: Place) -> dict[str, DataFrame]:
        """The rows of the logs from one place through another."""
        place = F.struct(*(expression.alias(name) for name, expression in _place().items()))
        within = place.between(_bound(first), _bound(last))
        return {topic: held.where(within) for topic, held in self._logs.items()}


def _place() -> dict[str, Column]:
    return {
        "ingested_ms": F.unix_millis("ingested_at"),
        **{name: F.col(name) for name in POSITION},
    }


def _bound(place: Place) -> Column:
    """A place as a struct. The numbers are kept out of the code that Spark generates."""
    values = {
        "ingested_ms": varying(place["ingested_ms"]),
        "topic": F.lit(place["topic"]),
        "partition": varying(place["partition"]).cast("int"),
        "offset": varying(place["offset"]),
    }
    return F.struct(*(value.alias(name) for name, value in values.items()))
