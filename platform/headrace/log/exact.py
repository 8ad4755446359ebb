"""The exact guard: each root position is taken once, whatever the path and in whatever order it comes.

A root position is the root topic, partition and offset and the ordinals that the chain has. All but its last number
is its *unit*: "" for records that were never flat-mapped (the last number is the offset), else the offset and the
ordinals before the last, such as "12" or "12,0". The seen last numbers of a unit are kept as intervals.

Law: `replay` is false exactly for the first record of each root position, in the order of commits and, within one, of
(partition, offset); or true if the position lies below the low-water mark of its root partition. Dead letters count nowhere.
State: at most `gaps_max` intervals for each root partition. When there are more, those with the lowest offsets are forgotten
and the mark is set above them: what lies below is refused, as none can tell it from a replay, and reported by a check.
A single flat-mapped input that alone needs more intervals than that loses its rest in the same way.
A commit's new intervals are found in Spark; the driver merges intervals, never records.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description.replay import EXACT, MAX_GAPS
from headrace.log.columns import RECORD
from headrace.spark.frames import local_frame
from headrace.spark.session import SHUFFLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, Row, SparkSession

Interval = tuple[int, int]
Root = tuple[str, int]
PLAIN = ""  # the unit of records that were never flat-mapped
UNIT = ("root_topic", "root_partition", "__unit")
CARRIED = "root_topic STRING, root_partition INT, __unit STRING, __at BIGINT, __end BIGINT"


@dataclass(frozen=True)
class SeenOfRoot:
    """What was seen of one root partition: the low-water mark, and disjoint intervals in order for each unit."""

    mark: int = 0
    units: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)

    def including(self, found: Mapping[str, Iterable[Interval]], intervals_max: int) -> SeenOfRoot:
        """With more intervals, and the lowest forgotten if they are too many."""
        units = dict(self.units)
        for unit, intervals in found.items():
            units[unit] = merged([*units.get(unit, ()), *intervals])
        tops = sorted(_offset(unit, last) for unit, of_unit in units.items() for _, last in of_unit)
        too_many = len(tops) - intervals_max
        mark = max(self.mark, tops[too_many - 1] + 1) if too_many > 0 else self.mark
        return SeenOfRoot(mark, _above(mark, units))


@dataclass(frozen=True)
class ExactGuard:
    """The root positions seen so far."""

    seen: Mapping[Root, SeenOfRoot] = field(default_factory=dict)
    gaps_max: int = MAX_GAPS
    mode = EXACT

    def judge(self, decoded: DataFrame) -> DataFrame:
        """Add `replay`, and `__seen` for `after`: the first and the last record of each run of positions.

        In:  decoded  one row per record, with the chain's columns; null in dead letters
        Out: one row per record, its partition's in one task
        """
        frame = _located(decoded).withColumn("__end", F.lit(None).cast("long"))
        if self.seen:
            frame = frame.unionByName(self._carried(decoded.sparkSession), allowMissingColumns=True)
        at, is_record = F.col("__at"), F.col("kind").isNotNull()
        ordered = Window.partitionBy(*_units_by_hash()).orderBy("__at", is_record, "partition", "offset")
        reached = F.max("__end").over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        frame = _with_runs(frame, ordered, reached.alias("__reached"))
        replay = (
            (at == F.col("__previous")) | (at <= F.col("__reached")) | (F.col("root_offset") < self._mark())
        )
        tasks = int(str(frame.sparkSession.conf.get(SHUFFLES)))
        # By number, for of partitions 0 and 1 the hashes have one parity. The windows of stream time go on from there.
        frame = frame.where(is_record).repartitionById(tasks, "partition")
        return frame.select(
            *decoded.columns,
            (at.isNotNull() & F.coalesce(replay, F.lit(False))).alias("replay"),
            F.when(F.col("__starts") | F.col("__ends"), F.struct(*UNIT, "__at", "__starts", "__ends")).alias(
                "__seen"
            ),
        )

    def after(self, seen: Iterable[Row]) -> ExactGuard:
        """The guard after a commit, from what `judge` marked or `seen_in` found."""
        found: dict[Root, dict[str, list[Interval]]] = defaultdict(lambda: defaultdict(list))
        begun = 0
        in_order = sorted(
            seen, key=lambda row: (*(row[name] for name in UNIT), row["__at"], not row["__starts"])
        )
        for row in in_order:
            begun = row["__at"] if row["__starts"] else begun
            if row["__ends"]:
                root = (row["root_topic"], row["root_partition"])
                found[root][row["__unit"]].append((begun, row["__at"]))
        known = dict(self.seen)
        for root, units in found.items():
            known[root] = known.get(root, SeenOfRoot()).including(units, self.gaps_max)
        return ExactGuard(known, self.gaps_max)

    def seen_in(self, rows: DataFrame) -> list[Row]:
        """What a stretch of the log shows to `after`."""
        records = _located(rows.where((F.col("kind") == RECORD) & F.col("path").isNotNull()))
        runs = _with_runs(
            records, Window.partitionBy(*_units_by_hash()).orderBy("__at", "partition", "offset")
        )
        return runs.where("__starts OR __ends").select(*UNIT, "__at", "__starts", "__ends").collect()

    def roots(self) -> set[Root]:
        """The root partitions that the guard knows."""
        return set(self.seen)

    def without(self, roots: set[Root]) -> ExactGuard:
        """The guard, everything about these root partitions forgotten, their marks too."""
        return ExactGuard(
            {root: seen for root, seen in self.seen.items() if root not in roots}, self.gaps_max
        )

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON document."""
        roots = [
            [*root, seen.mark, {unit: list(i) for unit, i in seen.units.items()}]
            for root, seen in self.seen.items()
        ]
        return {"mode": self.mode, "roots": roots}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], gaps_max: int) -> ExactGuard:
        """The guard that `to_json` wrote; a lower bound than then shows at the next commit."""
        seen = {
            (topic, partition): SeenOfRoot(
                mark, {unit: tuple((a, b) for a, b in i) for unit, i in units.items()}
            )
            for topic, partition, mark, units in document["roots"]
        }
        return cls(seen, gaps_max)

    def _carried(self, spark: SparkSession) -> DataFrame:
        """The intervals as rows that come before every record that they reach."""
        rows = [
            (topic, partition, unit, first, last)
            for (topic, partition), seen in self.seen.items()
            for unit, intervals in seen.units.items()
            for first, last in intervals
        ]
        return local_frame(spark, rows, CARRIED)

    def _mark(self) -> Expr:
        """The low-water mark of a row's root partition; null if nothing of it was forgotten."""
        pairs = [
            F.lit(item)
            for (topic, partition), seen in self.seen.items()
            for item in (f"{topic}/{partition}", seen.mark)
            if seen.mark
        ]
        root = F.concat("root_topic", F.lit("/"), F.col("root_partition").cast("string"))
        return F.create_map(*pairs)[root].cast("long") if pairs else F.lit(None).cast("long")


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same numbers in as few intervals as possible, in order."""
    result: list[Interval] = []
    for first, last in sorted(intervals):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return tuple(result)


def _above(mark: int, units: Mapping[str, tuple[Interval, ...]]) -> dict[str, tuple[Interval, ...]]:
    kept = {}
    for unit, intervals in units.items():
        if unit == PLAIN:
            kept[unit] = tuple((max(first, mark), last) for first, last in intervals if last >= mark)
        elif _offset(unit, 0) >= mark:
            kept[unit] = intervals
    return {unit: intervals for unit, intervals in kept.items() if intervals}


def _offset(unit: str, last: int) -> int:
    """The root offset of a position: its only number, or the first of its unit."""
    return last if unit == PLAIN else int(unit.partition(",")[0])


def _located(frame: DataFrame) -> DataFrame:
    """Add the unit of each record's root position and, as `__at`, its last number; null in dead letters."""
    ordinals = F.filter("ordinals", lambda ordinal: ordinal >= 0)
    frame = frame.withColumn("__ordinals", ordinals)
    size = F.size("__ordinals")
    before = F.slice("__ordinals", 1, F.greatest(size - 1, F.lit(0))).cast("array<string>")
    unit = F.concat_ws(",", F.col("root_offset").cast("string"), before)
    return frame.select(
        *(name for name in frame.columns if name != "__ordinals"),
        F.when(size > 0, unit).when(F.col("root_offset").isNotNull(), PLAIN).alias("__unit"),
        F.when(size > 0, F.get("__ordinals", size - 1).cast("long"))
        .otherwise(F.col("root_offset"))
        .alias("__at"),
    )


def _units_by_hash() -> list[Expr]:
    """A root's unit to partition a window by, its hash first.

    Sorting compares eight bytes of the first column before it looks at a row: names begin alike, hashes differ.
    """
    return [F.xxhash64(*UNIT), *(F.col(column) for column in UNIT)]


def _with_runs(frame: DataFrame, ordered: Any, *more: Expr) -> DataFrame:
    """Add `__previous`, and whether a record starts or ends a run of neighbouring positions; a row of the state cuts runs.

    In: ordered  by unit, then by `__at`
        more     other columns over that window
    """
    recorded = F.when(F.col("kind").isNotNull(), F.col("__at"))
    previous, following = F.lag(recorded).over(ordered), F.lead(recorded).over(ordered)
    frame = frame.select("*", previous.alias("__previous"), following.alias("__next"), *more)
    present, at = F.col("__at").isNotNull() & F.col("kind").isNotNull(), F.col("__at")
    return frame.withColumn(
        "__starts", present & F.coalesce(at > F.col("__previous") + 1, F.lit(True))
    ).withColumn("__ends", present & F.coalesce(F.col("__next") > at + 1, F.lit(True)))
