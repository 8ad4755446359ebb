"""`no_duplicate_replay`, `replays_below` and `guard_is_advancing`: what a topic's replay guard took and what it refused.

Law: judged from one snapshot of the log, each stretch between two resets of a root by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description.replay import EXACT
from headrace.log.decisions.resets import Reset, generation, resets_in, since_last_reset
from headrace.quality.claims import Check, Finding, at_most, nothing_to_judge, rows_unique
from headrace.quality.judgements.ratios import Share, below
from headrace.quality.judgements.uniqueness import SHOWN, copies, more_than_once, totals
from headrace.quality.words import UNDOES, counted, joined, moment, repair_of
from headrace.sequence.log_columns import DEAD_LETTER, RECORD
from headrace.sequence.replays.verdicts import AMBIGUOUS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import ReplayGuard, Topic

STRETCHES_SHOWN = 30
ROOT = ("root_topic", "root_partition")


@dataclass(frozen=True)
class Stretch:
    """The replays of one root partition on one day: how much, from and to which root offset, and when it came."""

    root: str
    records: int
    first: int
    last: int
    from_ms: int
    to_ms: int

    @property
    def words(self) -> str:
        """The stretch as part of a sentence."""
        return (
            f"of {self.root}, offsets {self.first} to {self.last}, which came between {moment(self.from_ms)} "
            f"and {moment(self.to_ms)}"
        )


@dataclass(frozen=True)
class Ambiguous:
    """The records since the last reset whose chain another record has, with other bytes, and the place of the first."""

    records: int
    partition: int
    offset: int

    def words(self, topic: str) -> str:
        """The fault and its cure."""
        return (
            f"{counted(self.records, 'record')} of {topic} (first: partition {self.partition} offset {self.offset}) "
            "came with the source chain of another record and with other bytes: a service makes several outputs of one "
            f"input. They are dead letters, {AMBIGUOUS}. Number the outputs: a service gives each an ordinal, the fourth "
            "element of its entry in the chain. If it cannot, give the guard ordinals='order'. Then stop the stream, run "
            f"`headrace reset-guard {topic} ROOT`, and have them sent again."
        )


@dataclass(frozen=True)
class Replays:
    """The verdicts of one log's guard; `rows` are its records with a source, `generation` how often a root was reset."""

    topic: Topic
    rows: DataFrame
    taken: int
    refused: int
    stretches: tuple[Stretch, ...]
    ambiguous: Ambiguous

    @property
    def guard(self) -> ReplayGuard:
        """The guard as described."""
        assert self.topic.replay_guard is not None
        return self.topic.replay_guard

    def evidence(self) -> list[dict[str, Any]]:
        """The figures of the log's page, newest day first."""
        newest = sorted(self.stretches, key=lambda s: s.to_ms, reverse=True)[:STRETCHES_SHOWN]
        return [{**vars(s), "from_time": moment(s.from_ms), "to_time": moment(s.to_ms)} for s in newest]


def read_replays(log: DataFrame, topic: Topic) -> Replays:
    """Count what the guard took and refused, in one pass over a snapshot of the log."""
    resets = resets_in(log)
    ordinals = F.col("ordinals")
    if topic.replay_guard is not None and topic.replay_guard.mode == EXACT:
        ordinals = F.filter(ordinals, lambda ordinal: ordinal >= 0)
    rows = log.where((F.col("kind") == RECORD) & F.col("path").isNotNull()).select(
        *("ingested_at", "partition", "offset", "timestamp", *ROOT, "root_offset", "path", "replay"),
        F.array_join(ordinals.cast("array<string>"), ",").alias("ordinals"),
        generation(resets).alias("generation"),
        since_last_reset(resets).alias("current"),
    )
    at = F.unix_millis("ingested_at")
    days = rows.groupBy(*ROOT, "replay", F.to_date("ingested_at").alias("day")).agg(
        F.count(F.lit(1)).alias("records"),
        F.min("root_offset").alias("first"),
        F.max("root_offset").alias("last"),
        F.min(at).alias("from_ms"),
        F.max(at).alias("to_ms"),
    )
    found = days.collect()
    stretches = [
        Stretch(_root(day), *(day[name] for name in ("records", "first", "last", "from_ms", "to_ms")))
        for day in found
        if day["replay"]
    ]
    taken = sum(day["records"] for day in found if not day["replay"])
    refused = sum(s.records for s in stretches)
    return Replays(topic, rows, taken, refused, tuple(stretches), _ambiguous(log, resets))


def _ambiguous(log: DataFrame, resets: Sequence[Reset]) -> Ambiguous:
    """Those after the last reset: it is the end of the numbering that made them."""
    after_ms = max((reset.ingested_at_ms for reset in resets), default=-1)
    letters = log.where(F.col("kind") == DEAD_LETTER).where(F.startswith("reason", F.lit(AMBIGUOUS)))
    first = F.min(F.struct("ingested_at", "partition", "offset")).alias("first")
    current = letters.where(F.unix_millis("ingested_at") > after_ms)
    row = current.agg(F.count(F.lit(1)).alias("records"), first).collect()[0]
    place = row["first"] or {"partition": 0, "offset": 0}
    return Ambiguous(row["records"], place["partition"], place["offset"])


def no_duplicate_replay(replays: Replays) -> Check:
    """The check that no source position was taken twice: on a path or, in exact mode, at all."""
    name, topic = "no_duplicate_replay", replays.topic.name
    if not replays.taken:
        return nothing_to_judge(name, "The guard has taken no record yet: nothing can stand twice.")
    place = ROOT if replays.guard.mode == EXACT else ("path",)
    identity = ("generation", *place, "root_offset", "ordinals")
    taken = replays.rows.where(~F.col("replay"))

    def explain(unique: bool) -> Finding:
        facts = {"taken": replays.taken, "replays": replays.refused}
        if unique:
            return Finding(
                f"Each of the {counted(replays.taken, 'record')} that the guard of {topic} took has a source position "
                f"of its own, and {counted(replays.refused, 'replay')} reached no result.",
                {**facts, "duplicates": 0},
            )
        with copies(taken, identity) as several:
            found, surplus = totals(several)
            first = several.orderBy(*identity).limit(SHOWN).collect()
        shown = [
            f"{'/'.join(str(row[column]) for column in place)} offset {row['root_offset']}"
            + (f" ordinals {row['ordinals']}" if row["ordinals"].strip("-1,") else "")
            for row in first
        ]
        return Finding(
            f"{more_than_once(found, 'source position', f'the log of {topic}', surplus)} among the records taken, first "
            f"{joined(shown)}; the guard never takes one twice: {repair_of([topic])}, which {UNDOES}.",
            {**facts, "duplicates": surplus},
        )

    return Check(name, rows_unique(taken, identity), explain)


def replays_below(replays: Replays, delivered: int, limit: float) -> Check:
    """The check of a log's replays against `limit`, a ratio of the records delivered."""
    worst = max(replays.stretches, key=lambda stretch: stretch.records, default=None)
    where = f", most of them ({worst.records:,}) {worst.words}" if worst else ""
    advice = f"{where}; find out what sends them again, or raise replay_ratio_max"
    refused = Share(replays.refused, delivered, ("a replay", "replays"))
    return below("replays_below", refused, limit, advice)


def guard_is_advancing(replays: Replays, run_max: int) -> Check:
    """The check that what is refused is a replay: no root has begun anew, no record was refused that was never taken, and no
    chain stands for several records.

    In: run_max  how many records in a row may be refused although their timestamps lie beyond all that was taken
    """
    name, topic = "guard_is_advancing", replays.topic.name
    if not replays.taken:
        return nothing_to_judge(name, "The guard has taken no record yet: nothing to judge.")
    runs = {_root(row): row for row in _runs(replays) if row["refused"] > run_max}
    unseen = {_root(row): row for row in _unseen(replays)}
    roots = sorted(runs.keys() | unseen.keys())
    faults = [_faults(number, _number(runs, r), _number(unseen, r)) for number, r in enumerate(roots)]
    ambiguous = replays.ambiguous
    faults.append(_faults(len(faults), 0, 0, ambiguous.records))

    def explain(advancing: bool) -> Finding:
        facts = {
            **{name: sum(each[name] for each in faults) for name in ("refused_in_a_row", "refused_unseen")},
            AMBIGUOUS: ambiguous.records,
            "limit": run_max,
        }
        if advancing:
            return Finding(
                f"All records that the guard of {topic} refused were replays: no root was created again.",
                facts,
            )
        anew = [_created_again(topic, root, row) for root, row in runs.items()]
        lost = [_refused_unseen(topic, replays.guard, root, row) for root, row in unseen.items()]
        unnumbered = [ambiguous.words(topic)] if ambiguous.records else []
        return Finding(" ".join([*unnumbered, *anew, *lost][:SHOWN]), facts)

    return Check(name, at_most(faults, "faults", 0), explain)


def _faults(root: int, in_a_row: int, unseen: int, others: int = 0) -> dict[str, int]:
    faults = in_a_row + unseen + others
    return {"root": root, "refused_in_a_row": in_a_row, "refused_unseen": unseen, "faults": faults}


def _runs(replays: Replays) -> list[Any]:
    """For each path (exact: each root) the records refused after the last that was taken, dated beyond all that were."""
    key = ROOT if replays.guard.mode == EXACT else (*ROOT, "path")
    rows = replays.rows.where("current").withColumn("__place", F.struct("ingested_at", "partition", "offset"))
    taken = (
        rows.where(~F.col("replay"))
        .groupBy(*key)
        .agg(F.max("__place").alias("__last"), F.max("timestamp").alias("__newest"))
    )
    refused = rows.where("replay").join(F.broadcast(taken), list(key))
    beyond = refused.where("__place > __last AND timestamp > __newest")
    runs = beyond.groupBy(*key).agg(*_extent("refused"))
    return (
        runs.groupBy(*ROOT)
        .agg(F.max_by(F.struct("refused", "first", "last", "from_ms", "to_ms"), "refused").alias("run"))
        .select(*ROOT, "run.*")
        .collect()
    )


def _unseen(replays: Replays) -> list[Any]:
    """For each root, the positions refused although the log holds no record of them that was taken."""
    rows = replays.rows.where("current")
    key = (*ROOT,) if replays.guard.mode == EXACT else (*ROOT, "path")
    taken = F.count_if(~F.col("replay"))
    positions = rows.groupBy(*key, "root_offset", "ordinals").agg(
        taken.alias("taken"), F.max("timestamp").alias("timestamp")
    )
    refused = positions.where("taken = 0")
    if replays.guard.mode != EXACT:
        # What lies below the log's own beginning was sent before the log was there.
        begins = positions.where("taken > 0").groupBy(*key).agg(F.min("root_offset").alias("begins"))
        refused = refused.join(F.broadcast(begins), list(key)).where("root_offset >= begins")
    return refused.groupBy(*ROOT).agg(*_extent("refused")).collect()


def _extent(number: str) -> list[Any]:
    stamp = F.unix_millis("timestamp")
    return [
        F.count(F.lit(1)).alias(number),
        F.min("root_offset").alias("first"),
        F.max("root_offset").alias("last"),
        F.min(stamp).alias("from_ms"),
        F.max(stamp).alias("to_ms"),
    ]


def _root(row: Any) -> str:
    return f"{row['root_topic']} partition {row['root_partition']}"


def _number(counts: Mapping[str, Any], root: str) -> int:
    return int(counts[root]["refused"]) if root in counts else 0


def _created_again(topic: str, root: str, row: Any) -> str:
    return (
        f"{root} has probably been created again: the last {counted(row['refused'], 'record')} of it in the log of "
        f"{topic} were refused as replays (offsets {row['first']} to {row['last']}) although they are dated "
        f"{moment(row['from_ms'])} to {moment(row['to_ms'])}, beyond all that was taken; stop the stream, run "
        f"`{_command(topic, row)}`, and have them sent again. If they are a long replay dated when it was sent, wait: "
        "the check holds when it has passed."
    )


def _refused_unseen(topic: str, guard: ReplayGuard, root: str, row: Any) -> str:
    cause, cure = (
        ("when the guard had forgotten what lies so low", f"raise max_gaps above {guard.gaps_max:,}")
        if guard.mode == EXACT
        else ("out of order, or had been dead letters when first sent", "give the guard mode='exact'")
    )
    return (
        f"{counted(row['refused'], 'source position')} of {root} (offsets {row['first']} to {row['last']}) came to "
        f"{topic} {cause}: refused without ever being taken; {cure} and, when nothing older can be sent again, stop the "
        f"stream, run `{_command(topic, row)}`, and have them sent once more."
    )


def _command(topic: str, row: Any) -> str:
    return f"headrace reset-guard {topic} {row['root_topic']} --partition {row['root_partition']}"
