"""A changed pipeline is applied, through crashes, and undone: its tables are always those of one description over its log."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.acts import DONE, last_act
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.plan import RENAMED
from headrace.changing.plan_changes import plan_changes
from headrace.changing.roll_back import roll_back
from headrace.description import WindowedAggregate
from headrace.lake import small_files
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.rebuilds.rebuild import rebuild_due
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.nodes.descriptions.evolution import REBUILT, OtherDescriptionError
from headrace.streams.pausing import pause, wishes
from headrace.writing.leases.lease import LeaseLostError, take_lease
from headrace.writing.node_runner import NodeRunner
from tests.changing.living import Living
from tests.rows import columns
from tests.runtime.line import taken_by_another

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.description.sink import Delivery

pytestmark = pytest.mark.spark

READINGS = hr.Topic("readings", key="sensor STRING", value="value DOUBLE", idle_timeout=None)


def pipeline(grace: str = "0 s", least: int = 2, **more: Any) -> list[Any]:
    """Final windows, what reads them, totals, and a chain with a step that has no name."""
    windows = READINGS.group_by("sensor").window(hr.tumbling("1 minute"), grace=grace)
    finals = windows.aggregate(n=hr.count(), **more).suppress(hr.until_window_closes())
    named = finals.named("finals")
    return [
        named,
        named.where(f"n < {least}").named("quiet"),
        READINGS.group_by("sensor").aggregate(n=hr.count(), **more).named("totals"),
        finals.where("n > 1").group_by("sensor").aggregate(busy=hr.count()).named("busy"),
    ]


class DiedError(Exception):
    """A crash."""


class Seen:
    """A sink that cannot be corrected, and remembers what it was given."""

    name = "seen"

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Remember them."""
        self.deliver_table(rows.toArrow(), delivery)

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """Remember them."""
        self.rows += columns(rows.to_pylist(), *delivery.columns)


def dying(*steps: str) -> Callable[[str], None]:
    left = list(steps)

    def on_step(step: str) -> None:
        if left and step == left[0]:
            left.pop(0)
            if not left:
                raise DiedError

    return on_step


def apply(living: Living, nodes: list[Node], dies_at: tuple[str, ...] = ()) -> str:
    if dies_at:
        with pytest.raises(DiedError):
            ApplyChanges(Site(living.spark, living.lake, on_step=dying(*dies_at)), nodes).run()
    return str(ApplyChanges(Site(living.spark, living.lake), nodes, patience_seconds=0).run())


@pytest.fixture
def living(spark: SparkSession, tmp_path: Path) -> Living:
    return Living(spark, tmp_path / "lake", READINGS)


def test_a_chain_is_changed_compared_swapped_and_undone(living: Living) -> None:
    before, after, seen = pipeline(), pipeline("1 minute", total=hr.sum("value")), Seen()
    after[0] = after[0].to(seen)
    living.commit((0, "a", 1), (0.5, "a", 2), (1, "b", 3))
    living.fold(before)
    living.commit((3, "a", 4), (2.5, "a", 5), (5, "b", 1))
    living.fold(before)
    old = living.tables(before)
    lease = take_lease(living.spark, living.lake.lease("node/quiet"), "Node 'quiet'", SystemClock())
    act, folded = ApplyChanges(Site(living.spark, living.lake), after, patience_seconds=0), set[Any]()
    act.on_folded = lambda done, of: folded.add((done, of))
    with pytest.raises(hr.TerminalError, match="cannot be swapped in or renamed while another process"):
        act.run()
    assert (6, 6) in folded, "commands show how far it is, and how long the rest takes"
    assert living.tables(before) == old
    lease.release()
    living.commit((6, "b", 2), (9, "a", 3))

    with pytest.raises(hr.TerminalError, match="sink 'seen' cannot be corrected"):
        ApplyChanges(Site(living.spark, living.lake), after, emit="differences")
    assert not seen.rows
    told = str(ApplyChanges(Site(living.spark, living.lake), after, emit="all").run())
    assert "node finals: 3 rows became" in told
    assert "node totals: 2 rows became 2: 0 added, 0 removed, 0 changed" in told, "its base has none yet"
    assert "new columns: total" in told
    living.fold(after)
    assert len(seen.rows) == len(living.tables(after)["finals"]), (
        "what came since is given once, by the stream"
    )
    assert living.tables(after) == living.tables_anew(after) != old
    done = last_act(living.lake)
    assert done is not None
    assert ([each.node for each in done.nodes], done.state) == (["finals", "quiet", "totals", "busy"], DONE)
    rate = small_files.read_json(living.lake.rebuild_rate("finals"))
    assert rate is not None
    assert rate["rows"]
    assert str(ApplyChanges(Site(living.spark, living.lake), after).run()) == "Nothing was to be applied."

    living.commit((12, "a", 1), (12.5, "b", 1))
    living.fold(after)
    assert living.tables(after) == living.tables_anew(after)
    assert sorted(roll_back(living.spark, living.lake)) == ["busy", "finals", "quiet", "totals"]
    assert living.tables(before) == old
    with pytest.raises(hr.TerminalError, match="nothing to go back to"):
        roll_back(living.spark, living.lake)
    living.fold(before)
    assert living.tables(before) == living.tables_anew(before)


def test_a_renamed_node_goes_on_from_its_tables_and_its_readers_follow(living: Living) -> None:
    finals, _, totals, _ = before = pipeline()[:4]
    living.commit((0, "a", 1), (0.5, "a", 2), (1, "b", 3), (3, "a", 4))
    living.fold(before)
    pause(living.lake, "totals")
    other = finals.named("closed", renamed_from="finals")
    after = [other, other.where("n < 2").named("quiet"), totals.named("sums", renamed_from="totals")]
    plan = plan_changes(living.lake, after)
    assert {each.node: each.outcome for each in plan.nodes} == {
        "closed": RENAMED,
        "quiet": REBUILT,
        "sums": RENAMED,
    }
    told = apply(living, after)
    assert told.startswith("node closed: goes on from the tables of its former name")
    assert lakes.open_table(living.lake.state("sums")).snapshot().rows
    assert wishes(living.lake).paused == {"totals", "sums"}, "it rests under its new name, too"
    living.commit((5, "a", 1), (7, "b", 2))
    living.fold(after)
    assert living.tables(after) == living.tables_anew(after)
    assert str(ApplyChanges(Site(living.spark, living.lake), after).run()) == "Nothing was to be applied."


def test_streams_rebuild_a_chain_by_themselves_where_the_description_says_so(living: Living) -> None:
    def chain(grace: str) -> tuple[Node, Node]:
        finals = pipeline(grace)[0].named("finals", on_change="rebuild")
        assert isinstance(finals, WindowedAggregate)
        return finals, finals.where("n < 2").named("quiet", on_change="rebuild")

    before, (finals, quiet) = chain("0 s"), chain("1 minute")
    living.commit((0, "a", 1), (1, "b", 3), (4, "a", 4))
    living.fold(before)
    refusing = replace(quiet, on_change="refuse")
    with pytest.raises(OtherDescriptionError, match="another description") as refused:
        rebuild_due(living.spark, refusing, living.lake, living.clock)
    assert "headrace plan" in str(refused.value)
    below = rebuild_due(living.spark, quiet, living.lake, living.clock)
    assert below is not None
    assert not below.advance()
    leases = {
        node.required_name: take_lease(
            living.spark, living.lake.lease(f"node/{node.required_name}"), "A node", living.clock
        )
        for node in (finals, quiet)
    }
    with pytest.raises(hr.TransientError, match="has read less"):
        below.swap(leases["quiet"])
    above = rebuild_due(living.spark, finals, living.lake, living.clock)
    assert above is not None
    for rebuild, node in ((above, finals), (below, quiet)):
        while rebuild.advance():
            pass
        rebuild.swap(leases[node.required_name])
        rebuild.close()
        leases[node.required_name].release()
        NodeRunner(living.spark, node, living.lake, is_read=node is finals)  # as its stream opens it
    assert living.tables([finals, quiet]) == living.tables_anew([finals, quiet])


def test_after_an_erasure_one_cannot_go_back(living: Living) -> None:
    before, after = pipeline()[2:3], pipeline(total=hr.sum("value"))[2:3]
    living.commit((0, "a", 1), (1, "b", 3))
    living.fold(before)
    apply(living, after)
    assert small_files.exists(living.lake.former("totals"))
    list(Erasure(living.spark, living.lake, after, READINGS, "a").run())
    assert not small_files.exists(living.lake.former("totals"))
    with pytest.raises(hr.TerminalError, match="cannot go back"):
        roll_back(living.spark, living.lake)
    assert living.tables(after) == living.tables_anew(after)


def test_an_act_that_was_broken_off_goes_on_with_what_it_gives_to_sinks(living: Living) -> None:
    seen = Seen()
    before, after = pipeline()[:2], pipeline(total=hr.sum("value"))[:2]
    after[1] = after[1].to(seen)
    living.commit((0, "a", 1), (3, "b", 3))
    living.fold(before)
    with pytest.raises(DiedError):
        ApplyChanges(Site(living.spark, living.lake, on_step=dying("after results")), after, emit="all").run()
    with pytest.raises(hr.TerminalError, match="was begun with emit='all'") as refused:
        ApplyChanges(Site(living.spark, living.lake), after)
    assert refused.value.hint is not None
    assert "--emit all" in refused.value.hint
    ApplyChanges(Site(living.spark, living.lake), after, emit="all").run()
    act = last_act(living.lake)
    assert act is not None
    assert (act.emit, [each.node for each in act.nodes]) == ("all", ["finals", "quiet"])
    assert len(small_files.names(living.lake.changes_applied)) == 1, "it is one act"
    assert len(seen.rows) == 1


def paused_at(step: str, meanwhile: Callable[[], object]) -> Callable[[str], None]:
    """A process that is paused at a step, once, while others work."""
    left = [meanwhile]

    def on_step(reached: str) -> None:
        if left and reached == step:
            left.pop()()

    return on_step


def test_an_apply_that_was_paused_swaps_nothing_over_what_others_wrote_meanwhile(living: Living) -> None:
    """Its leases expired: a stream has folded what came, and has given it to its sink."""
    seen = Seen()
    before, after = pipeline()[:1], pipeline(total=hr.sum("value"))[:1]
    before, after = [before[0].to(seen)], [after[0].to(seen)]

    def folded() -> None:
        living.commit((6, "a", 1))
        living.fold(before)

    def refused(step: str, meanwhile: Callable[[], object], error: type[Exception], why: str) -> None:
        with pytest.raises(error, match=why):
            ApplyChanges(Site(living.spark, living.lake, on_step=paused_at(step, meanwhile)), after).run()

    living.commit((0, "a", 1), (4, "b", 2))
    living.fold(before)
    refused("after kept", folded, hr.TransientError, "another process has written its tables")
    living.fold(before)  # nothing was noted: the code before goes on
    refused(
        "after rules",
        lambda: taken_by_another(living.lake.lease("node/finals")),
        LeaseLostError,
        "taken over",
    )
    ApplyChanges(Site(living.spark, living.lake), after).run()
    living.commit((9, "a", 2))
    living.fold(after)
    assert living.tables(after) == living.tables_anew(after)
    assert len(seen.rows) == len({row[:2] for row in seen.rows}) == len(living.tables(after)["finals"])


STEPS = ("before swap", "after kept", "after rules", "after results")


@pytest.mark.parametrize("seed", [1])
def test_after_any_changes_through_any_crash_the_tables_are_those_of_the_last_description(
    living: Living, seed: int
) -> None:
    """A crash may be followed by another change: what was half swapped gives way."""
    chance, minute = random.Random(seed), 0.0
    variants: list[Callable[[], list[Node]]] = [
        pipeline,
        lambda: pipeline("1 minute"),
        lambda: pipeline(total=hr.sum("value")),
        lambda: pipeline(least=3),
    ]
    now = pipeline()
    for _ in range(3):
        for _ in range(chance.randint(1, 2)):
            records = [
                (minute + chance.uniform(-2, 2), chance.choice("ab"), chance.randint(0, 9)) for _ in range(6)
            ]
            living.commit(*[(max(0.0, at), sensor, float(value)) for at, sensor, value in records])
            minute += 2
            living.fold(now)
        now = chance.choice(variants)()
        if plan_changes(living.lake, now).rebuilt and chance.random() < 0.8:
            dies_at = tuple([chance.choice(STEPS)] * chance.randint(1, 2))
            other = chance.choice(variants)()
            try:
                ApplyChanges(Site(living.spark, living.lake, on_step=dying(*dies_at)), now).run()
            except DiedError:
                now = chance.choice([now, other])
        ApplyChanges(Site(living.spark, living.lake), now).run()
    living.fold(now)
    assert living.tables(now) == living.tables_anew(now)
