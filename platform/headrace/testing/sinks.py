"""The conformance kit for sinks: whether a store keeps what the runtime relies on.

    kit = SinkKit(spark, MySink(), held=lambda: my_store.rows())
    kit.run()

The kit delivers made-up rows as the runtime does at its worst (twice, cut short, an old micro-batch again, while the
store is away), and compares what the store holds afterwards. It needs no broker, no log and no node.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.description.sink import CorrectableSink, Delivery, Sink, TableSink
from headrace.errors import TransientError
from headrace.operators.contract import OF_PLACE
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IDENTITY = ("claim", "number")
COLUMNS = (*IDENTITY, "version", "text", "items")
SCHEMA = (
    "claim STRING, number BIGINT, version BIGINT, text STRING, items ARRAY<STRUCT<name STRING, n BIGINT>>, "
    "__deleted BOOLEAN, __timestamp TIMESTAMP, __sequence BIGINT, __place BINARY, __ordinal INT"
)
AWKWARD = ("plain", "tab\tline\nreturn\rquote\"'back\\slash", "\\N", "", None, "żółć 水 🌊", "{}", "%s %%")

CORRECTIONS = (
    "a_correction_replaces_a_row_that_looks_newer",
    "a_correction_deletes_what_should_not_be_there_and_nothing_else",
    "a_correction_brings_back_what_was_deleted_wrongly",
    "a_correction_leaves_what_is_newer_than_it",
)

OF_APPENDED_ROWS = (
    "every_row_arrives",
    "a_second_delivery_changes_nothing",
    "a_delivery_cut_short_is_completed",
    "an_empty_delivery_changes_nothing",
    "rows_of_one_key_stay_apart",
)


@dataclass(frozen=True)
class Made:
    """Holds a row that the kit makes: identity, content, and whether it says that the identity is gone."""

    claim: str
    number: int
    version: int = 1
    text: str | None = None
    deleted: bool = False


class SinkKit:
    """Tries a sink of your own against the protocol of sinks, claim by claim.

    In:     sink       it delivers the columns claim STRING, number BIGINT (these two are the identity), version BIGINT,
                       text STRING and items ARRAY<STRUCT<name STRING, n BIGINT>>
            held       what the store holds now: for each row a mapping with at least claim, number, version and text;
                       rows of other tests do not matter
            refused    makes a text that the store refuses; None: it refuses nothing
            away       a context in which the store is out of reach; None: that cannot be had here
            any_order  whether micro-batches may arrive out of order; False for a log-like store whose readers go by
                       position, to which the runtime only ever repeats old ones
            appended   True: the rows are only appended, as those of named streams are: claim and number are the key
    A sink with `correct` is tried against `CorrectableSink`, too; one with `deliver_table` gets every other delivery by it.
    Raises: AssertionError naming the claim, what the store should hold and what it holds.
    """

    def __init__(
        self,
        spark: SparkSession,
        sink: Sink,
        stored_rows: Callable[[], Iterable[Mapping[str, Any]]],
        *,
        refused: Callable[[], str] | None = None,
        away: Callable[[], AbstractContextManager[object]] | None = None,
        any_order: bool = True,
        appended: bool = False,
    ) -> None:
        self._spark, self._sink, self._stored_rows = spark, sink, stored_rows
        self._refused, self._away, self._any_order, self._appended = refused, away, any_order, appended
        self._sequence, self._deliveries = int(time.time() * 1000), 0
        self._run = uuid.uuid4().hex[:8]
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-sink-"))
        identity = OF_PLACE if appended else IDENTITY
        self._delivery = Delivery("sink_kit", IDENTITY, identity, COLUMNS, f"file:{self._folder}/refused")

    @property
    def claims(self) -> tuple[str, ...]:
        """List the claims that the kit can try with what it was given."""
        if self._appended:
            corrects = isinstance(self._sink, CorrectableSink)
            return (*OF_APPENDED_ROWS, *(["a_correction_takes_appended_rows_away"] if corrects else []))
        return (
            "every_row_arrives",
            "a_second_delivery_changes_nothing",
            "a_delivery_cut_short_is_completed",
            "a_newer_row_replaces_an_older_one",
            "an_old_micro_batch_again_changes_nothing",
            "a_deleted_row_is_gone_and_stays_gone",
            "an_empty_delivery_changes_nothing",
            "of_several_rows_of_an_identity_the_newest_stays",
            *(CORRECTIONS if isinstance(self._sink, CorrectableSink) else []),
            *(["micro_batches_in_another_order_lead_to_the_same"] if self._any_order else []),
            *(["a_refused_row_is_kept_with_its_reason_and_stops_no_other"] if self._refused else []),
            *(["an_outage_delays_and_loses_nothing"] if self._away else []),
        )

    def run(self) -> tuple[str, ...]:
        """Try every claim. Out: their names."""
        try:
            for claim in self.claims:
                self.check(claim)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        return self.claims

    def check(self, claim: str) -> None:
        """Try one claim."""
        if claim not in self.claims:
            raise ValueError(f"There is no claim {claim!r} here; claims are {', '.join(self.claims)}.")
        getattr(self, f"_{claim}")()

    def _every_row_arrives(self) -> None:
        rows = self._rows("arrives", version=1)
        self._deliver(rows)
        self._expect("every_row_arrives", rows)

    def _a_second_delivery_changes_nothing(self) -> None:
        rows = self._rows("twice", version=1)
        at = self._deliver(rows)
        self._deliver(rows, at)
        self._expect("a_second_delivery_changes_nothing", rows)

    def _a_delivery_cut_short_is_completed(self) -> None:
        rows = self._rows("parts", version=1)
        at = self._deliver(rows[:3])
        self._deliver(rows, at)
        self._expect("a_delivery_cut_short_is_completed", rows)

    def _a_newer_row_replaces_an_older_one(self) -> None:
        rows = self._rows("newer", version=1)
        newer = [replace(row, version=2, text="newer") for row in rows[:4]]
        self._deliver(rows)
        self._deliver(newer)
        self._expect("a_newer_row_replaces_an_older_one", newer + rows[4:])

    def _an_old_micro_batch_again_changes_nothing(self) -> None:
        rows = self._rows("old", version=1)
        newer = [replace(row, version=2) for row in rows[2:]]
        at = self._deliver(rows)
        self._deliver(newer)
        self._deliver(rows, at)
        self._expect("an_old_micro_batch_again_changes_nothing", rows[:2] + newer)

    def _a_deleted_row_is_gone_and_stays_gone(self) -> None:
        claim, rows = "a_deleted_row_is_gone_and_stays_gone", self._rows("deleted", version=1)
        never_there = [replace(rows[0], number=1_000, deleted=True)]
        at = self._deliver(rows)
        then = self._deliver([replace(row, deleted=True) for row in rows[:2]] + never_there)
        self._expect(claim, rows[2:])
        self._deliver(rows, at)
        self._expect(claim, rows[2:])
        self._deliver([replace(row, deleted=True) for row in rows[:2]], then)
        back = [replace(rows[0], version=3)]
        self._deliver(back)
        self._expect(claim, rows[2:] + back)

    def _an_empty_delivery_changes_nothing(self) -> None:
        rows = self._rows("empty", version=1)
        self._deliver(rows)
        self._deliver([])
        self._expect("an_empty_delivery_changes_nothing", rows)

    def _of_several_rows_of_an_identity_the_newest_stays(self) -> None:
        rows = self._rows("several", version=1)
        newer = [replace(row, version=2) for row in rows[:3]]
        last = [replace(newer[0], version=3), replace(newer[1], deleted=True)]
        at = self._deliver([*rows, *newer, *last], commits=3, newest_first=True)
        wanted = [last[0], newer[2], *rows[3:]]
        self._expect("of_several_rows_of_an_identity_the_newest_stays", wanted)
        self._deliver([*rows, *newer, *last], at, commits=3)
        self._expect("of_several_rows_of_an_identity_the_newest_stays", wanted)

    def _a_correction_replaces_a_row_that_looks_newer(self) -> None:
        claim, rows = "a_correction_replaces_a_row_that_looks_newer", self._rows("wrong", version=1)
        earlier = self._next()
        wrong = [replace(row, version=2) for row in rows[:3]]
        through = self._deliver(wrong + rows[3:])
        for _ in range(2):
            self._correct(rows[:3], earlier, through)
            self._expect(claim, rows)
        newer = [replace(row, version=3) for row in rows[:2]]
        self._deliver(newer)
        self._expect(claim, newer + rows[2:])

    def _a_correction_deletes_what_should_not_be_there_and_nothing_else(self) -> None:
        claim = "a_correction_deletes_what_should_not_be_there_and_nothing_else"
        rows = self._rows("removed", version=1)
        through = self._deliver(rows)
        for _ in range(2):
            self._correct([replace(row, deleted=True) for row in rows[2:4]], through, through)
            self._expect(claim, rows[:2] + rows[4:])
        back = [replace(rows[2], version=2)]
        self._deliver(back)
        self._expect(claim, rows[:2] + rows[4:] + back)

    def _a_correction_brings_back_what_was_deleted_wrongly(self) -> None:
        rows = self._rows("back", version=1)
        at = self._deliver(rows)
        through = self._deliver([replace(row, deleted=True) for row in rows[:3]])
        self._correct(rows[:2], at, through)
        self._expect("a_correction_brings_back_what_was_deleted_wrongly", rows[:2] + rows[3:])

    def _a_correction_leaves_what_is_newer_than_it(self) -> None:
        rows = self._rows("since", version=1)
        through = self._deliver(rows)
        newer = [replace(rows[0], version=3), replace(rows[1], version=3)]
        self._deliver([*newer, replace(rows[2], deleted=True)])
        right = [replace(row, version=2) for row in rows[:5]]
        self._correct([replace(right[0], deleted=True), *right[1:]], through, through)
        wanted = [*newer, *right[3:], *rows[5:]]
        self._expect("a_correction_leaves_what_is_newer_than_it", wanted)

    def _micro_batches_in_another_order_lead_to_the_same(self) -> None:
        rows = self._rows("order", version=1)
        first, second = self._next(), self._next()
        newer = [replace(row, version=2) for row in rows[:3]] + [replace(rows[3], deleted=True)]
        self._deliver(newer, second)
        self._deliver(rows, first)
        self._expect("micro_batches_in_another_order_lead_to_the_same", newer[:3] + rows[4:])

    def _rows_of_one_key_stay_apart(self) -> None:
        rows = [replace(row, number=0) for row in self._rows("one key", version=1)]
        at = self._deliver(rows)
        later = [replace(row, version=2) for row in rows]
        self._deliver(later)
        self._deliver(rows, at)
        self._expect("rows_of_one_key_stay_apart", rows + later)

    def _a_correction_takes_appended_rows_away(self) -> None:
        rows = [replace(row, number=0) for row in self._rows("taken", version=1)]
        through = self._deliver(rows)
        gone = [replace(row, deleted=number < 3) for number, row in enumerate(rows)]
        for _ in range(2):
            self._correct(gone, through, through)
            self._expect("a_correction_takes_appended_rows_away", rows[3:])

    def _a_refused_row_is_kept_with_its_reason_and_stops_no_other(self) -> None:
        assert self._refused is not None
        claim = "a_refused_row_is_kept_with_its_reason_and_stops_no_other"
        rows = self._rows("refused", version=1)
        bad = [replace(rows[0], number=100 + number, text=self._refused()) for number in range(2)]
        mixed = [*rows[:2], bad[0], *rows[2:], bad[1]]
        at = self._deliver(mixed)
        self._deliver(mixed, at)
        self._expect(claim, rows)
        kept = read(self._spark, self._delivery.refused).where(f"identity LIKE '%{rows[0].claim}%'")
        found = sorted((row["identity"], bool(row["reason"]), row["sequence"]) for row in kept.collect())
        wanted = [(f'{{"claim":"{row.claim}","number":{row.number}}}', True, at) for row in bad]
        assert found == wanted, f"{claim}: the table of refused rows should hold {wanted}; it holds {found}"

    def _an_outage_delays_and_loses_nothing(self) -> None:
        assert self._away is not None
        claim, rows = "an_outage_delays_and_loses_nothing", self._rows("outage", version=1)
        self._deliver(rows[:2])
        at = self._next()
        with self._away():
            try:
                self._deliver(rows[2:], at)
            except TransientError:
                pass
            else:
                raise AssertionError(f"{claim}: deliver returned while the store was away")
        self._deliver(rows[2:], at)
        self._expect(claim, rows)

    def _rows(self, claim: str, *, version: int) -> list[Made]:
        return [Made(f"{claim}-{self._run}", n, version, text) for n, text in enumerate(AWKWARD)]

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _deliver(
        self, rows: list[Made], sequence: int | None = None, *, commits: int = 1, newest_first: bool = False
    ) -> int:
        """Deliver rows as a micro-batch of some log commits; the place of the first commit."""
        at = self._next() if sequence is None else sequence
        self._sequence = max(self._sequence, at + commits - 1)
        frame = self._frame(rows, at, commits, newest_first=newest_first)
        self._deliveries += 1
        if isinstance(self._sink, TableSink) and self._deliveries % 2:
            self._sink.deliver_table(frame.orderBy("__sequence", "__place").toArrow(), self._delivery)
        else:
            self._sink.deliver(frame, self._delivery)
        return at

    def _correct(self, rows: list[Made], sequence: int, through: int) -> None:
        assert isinstance(self._sink, CorrectableSink)
        self._sink.correct(self._frame(rows, sequence), self._delivery, through)

    def _frame(self, rows: list[Made], at: int, commits: int = 1, *, newest_first: bool = False) -> DataFrame:
        """The rows as a sink gets them, spread over tasks. Each further row of an identity is of the next commit."""
        values, seen = [], Counter[tuple[str, int]]()
        for ordinal, row in enumerate(rows):
            commit = 0 if self._appended else seen[row.claim, row.number]
            assert commit < commits, "more rows of an identity than commits"
            seen[row.claim, row.number] += 1
            values.append(_values(row, at + commit, ordinal))
        if newest_first:
            return local_frame(self._spark, values[::-1], SCHEMA).coalesce(1)
        return local_frame(self._spark, values, SCHEMA).repartition(3)

    def _expect(self, claim: str, rows: list[Made]) -> None:
        found = [
            (row["claim"], row["number"], row["version"], row["text"])
            for row in self._stored_rows()
            if row["claim"] in {each.claim for each in rows}
        ]
        wanted = sorted(((row.claim, row.number, row.version, row.text) for row in rows), key=repr)
        found.sort(key=repr)
        assert found == wanted, f"{claim}: the store should hold {wanted}; it holds {found}"


def _values(row: Made, sequence: int, ordinal: int) -> tuple[Any, ...]:
    at = datetime.fromtimestamp(sequence / 1000, tz=UTC)
    items = [{"name": row.text, "n": row.number}, {"name": None, "n": None}]
    content = (None, None, None) if row.deleted else (row.version, row.text, items)
    return (row.claim, row.number, *content, row.deleted, at, sequence, place_of(ordinal), ordinal)


def place_of(ordinal: int) -> bytes:
    """A place for rows that are made up: it compares as the ordinal does."""
    return ordinal.to_bytes(4)
