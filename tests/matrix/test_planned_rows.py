"""The rows that `plan --rows` tells are those of a run of the changed description, for a node of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.explain.tables import planned_rows as planned
from headrace.explain.tables.planned_rows import PlannedRows, planned_rows
from headrace.explain.tables.planned_rows_in_words import lines_of, markdown_of
from headrace.nodes.descriptions.topics import is_read
from headrace.observe.local_views import LocalViews
from headrace.operators.key_scope import reads_all
from headrace.oracle.values import identity
from headrace.testing import TestDriver
from headrace.writing.node_runner import NodeRunner
from tests.conftest import Drive
from tests.matrix.kinds import AFTER, name_of, nodes

pytestmark = [pytest.mark.fast, pytest.mark.slow]
BEGIN_MS, MINUTE_MS, DAY_MS = 1_700_000_000_000, 60_000, 86_400_000
KINDS = sorted(nodes())


def driver_of(described: list[Any]) -> TestDriver:
    """The same log, whatever is described."""
    driver, random = TestDriver(described), Random(3)
    driver._clock.set(2_000_000_000_000)
    for step in range(4):
        for _ in range(9):
            value: Any = {"value": random.randrange(4), "place": random.choice(["north", "south", None])}
            driver.pipe(
                "events",
                key=random.choice(["a", "b", "c"]),
                value=random.choice([value] * 9 + [None]),
                timestamp_ms=BEGIN_MS + step * 2 * MINUTE_MS + random.randrange(-20, 12) * 15_000,
            )
        driver.pipe("places", key="north", value={"city": f"city{step}"}, timestamp_ms=BEGIN_MS)
        driver.advance_wall_clock("2 minutes")
        driver.cut()
    for topic, key in (("events", "z"), ("places", "west")):  # the day closes
        driver.pipe(topic, key=key, value={"place": "west", "city": "w"}, timestamp_ms=BEGIN_MS + 2 * DAY_MS)
    driver.advance_wall_clock("2 minutes")
    driver.cut()
    return driver


@pytest.fixture(scope="module")
def answers() -> Iterator[tuple[TestDriver, TestDriver, PlannedRows, set[str]]]:
    old, new = driver_of([*nodes().values()]), driver_of([*nodes(left_out=AFTER).values()])
    before = files(old)
    answer = planned_rows(old._session, old.lake, [*nodes(left_out=AFTER).values()])
    yield old, new, answer, before
    old.close()
    new.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_those_of_a_run_of_the_changed_description(kind: str, answers: Any) -> None:
    old, new, answer, _ = answers
    of = next(each for each in answer.nodes if each.node == name_of(kind)).rows
    before, after = (rows_of(driver, kind) for driver in (old, new))
    assert (of.rows_before, of.rows_after) == (before.total(), after.total())
    assert of.removed + of.changed == (before - after).total()
    assert of.added + of.changed == (after - before).total()
    for each in of.differing:
        assert each.before is None or identity(each.before.values()) in before - after
        assert each.after is None or identity(each.after.values()) in after - before


@pytest.fixture(scope="module")
def sampled(answers: Any) -> tuple[PlannedRows, PlannedRows, set[str]]:
    """The answers for two keys of each node, and for all; and the nodes that the first one has folded."""
    old, *_ = answers
    described, folded = [*nodes(left_out=AFTER).values()], set[str]()

    def counted(spark: Any, node: Any, *more: Any, **named: Any) -> NodeRunner:
        folded.add(node.required_name)
        return NodeRunner(spark, node, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned, "NodeRunner", counted)
        some = planned_rows(old._session, old.lake, described, sample=2)
    return some, planned_rows(old._session, old.lake, described, sample=1_000), folded


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_has_the_rows_of_its_keys(kind: str, answers: Any, sampled: Any) -> None:
    old, new, answer, _ = answers
    whole, some, all_keys = (
        next(each for each in of.nodes if each.node == name_of(kind)) for of in (answer, *sampled[:2])
    )
    assert len(some.keys) == 2
    assert some.keys == all_keys.keys[:2]
    assert all_keys.rows == whole.rows
    names, own = [*some.keys[0]], {identity(key.values()) for key in some.keys}
    before, after = (rows_of(driver, kind, names, own) for driver in (old, new))
    of = some.rows
    assert (of.rows_before, of.rows_after) == (before.total(), after.total())
    assert of.removed + of.changed == (before - after).total()
    assert of.added + of.changed == (after - before).total()


def test_only_nodes_whose_rows_need_other_keys_and_nodes_that_are_read_are_folded_for_a_sample(
    sampled: Any,
) -> None:
    of_all = nodes(left_out=AFTER).values()
    assert sampled[2] == {
        node.required_name for node in of_all if reads_all(node) or is_read(node, [*of_all])
    }


def test_some_rows_of_these_logs_change(answers: Any) -> None:
    assert sum(each.rows.total > 0 for each in answers[2].nodes) > len(KINDS) / 2


def test_the_lake_is_only_read(answers: Any) -> None:
    old, _, _, before = answers
    assert files(old) == before


def test_a_node_that_is_new_adds_all_its_rows_and_an_unchanged_one_none() -> None:
    events = hr.Topic("events", key="key STRING", value="value BIGINT, place STRING", idle_timeout="1 minute")
    old = events.group_by("key").aggregate(n=hr.count()).named("totals")
    new = events.where("value > 1").group_by("key").aggregate(n=hr.count()).named("large")
    driver = driver_of([*nodes().values(), old])
    answer = planned_rows(driver._session, driver.lake, [*nodes().values(), old, new])
    (only,) = answer.nodes
    assert (only.node, only.outcome) == ("large", "new")
    assert only.rows is not None
    assert only.rows.added == only.rows.rows_after > 0
    text, markdown = "\n".join(lines_of(answer)), markdown_of(answer)
    assert f"rows of large: {only.rows.added} added, 0 removed, 0 changed" in text
    assert f"| `large` (new) | {only.rows.added} | 0 | 0 | {only.rows.added} |" in markdown
    assert "+ key=a, n=" in markdown
    driver.close()


def test_a_value_does_not_end_the_block_of_examples(drive: Drive) -> None:
    """Before, a fence in a value ended the block, and what follows was Markdown in the pull request's comment."""
    views = hr.Topic("views", key="user STRING", value="page STRING")
    driver = drive(views.table().named("newest"))
    for user, page in (("a", "x\n```\n\n</details>\n\n@all\n"), ("b", "````"), ("c", "x")):
        driver.pipe("views", key=user, value={"page": page})
    driver.cut()
    lines = markdown_of(driver.plan_rows([views.where("user = 'c'").table().named("newest")])).splitlines()
    begin = lines.index("`````diff")
    end = lines.index("`````")
    assert begin < lines.index("@all") < end
    assert lines[end + 1 :] == ["", "</details>"]


def test_days_compares_the_last_days_alone() -> None:
    events = hr.Topic("events", key="key STRING", value="value BIGINT", idle_timeout="1 minute")

    def described(least: int) -> list[Any]:
        large = events.where(f"value >= {least}").group_by("key")
        windows = large.window(hr.tumbling("1 hour"), grace=0).aggregate(n=hr.count())
        return [
            windows.suppress(hr.until_window_closes()).named("hours"),
            large.aggregate(n=hr.count()).named("totals"),
        ]

    driver = TestDriver(described(0))
    for hour in range(60):
        at_ms = BEGIN_MS + hour * 60 * MINUTE_MS
        driver.pipe("events", key="a", value={"value": hour % 2}, timestamp_ms=at_ms)
    driver.cut()
    whole, last = (
        planned_rows(driver._session, driver.lake, described(1), days=days).nodes for days in (None, 2)
    )
    newest = max(row["window_start"] for row in driver.rows("hours")).date()
    recent = [row for row in driver.rows("hours") if (newest - row["window_start"].date()).days < 2]
    assert last[0].days
    assert last[0].rows is not None
    assert last[0].rows.rows_before == len(recent) < len(driver.rows("hours"))
    assert last[0].rows.removed == sum(row["window_start"].hour % 2 == 0 for row in recent)
    assert not last[1].days
    assert whole[1].rows == last[1].rows
    driver.close()


def test_a_sample_goes_by_the_columns_of_the_key_that_both_tables_have() -> None:
    events = hr.Topic("events", key="key STRING", value="value BIGINT", idle_timeout="1 minute")

    def described(*by: str) -> list[Any]:
        totals = events.group_by(*by).aggregate(n=hr.count()).named("totals")
        return [totals, totals.where("n > 0").named("shown")] if len(by) > 1 else [totals]

    driver = TestDriver(described("key"))
    for number in range(40):
        driver.pipe("events", key=f"k{number % 10}", value={"value": number % 4}, timestamp_ms=BEGIN_MS)
    driver.cut()
    answer = driver.plan_rows(described("key", "value"), sample=3)
    totals, shown = answer.nodes
    assert [[*key] for each in (totals, shown) for key in (each.keys or ())[:1]] == [
        ["key"],
        ["key", "value"],
    ]
    assert totals.rows is not None
    assert shown.rows is not None
    assert (totals.rows.rows_before, totals.rows.rows_after, totals.rows.changed) == (3, 6, 3)
    assert (shown.outcome, shown.rows.added) == ("new", 3)
    assert "(3 rows become 6, of 3 keys)" in "\n".join(lines_of(answer))
    assert "The rows of 3 keys at most of each node are compared." in markdown_of(answer)
    driver.close()


@pytest.mark.parametrize("sample", [None, 5])
def test_a_node_that_is_renamed_and_changed_is_compared_where_its_tables_stand(sample: int | None) -> None:
    events = hr.Topic("events", key="key STRING", value="value BIGINT", idle_timeout="1 minute")

    def described(least: int, **renamed: str) -> list[Any]:
        large = events.where(f"value >= {least}").group_by("key")
        windows = large.window(hr.tumbling("1 minute"), grace=0).aggregate(n=hr.count())
        made = {
            "minutes": windows.suppress(hr.until_window_closes()),
            "totals": large.aggregate(n=hr.count()),
            "numbers": large.window(hr.tumbling("1 minute"), grace=0).aggregate(total=hr.sum("value")),
        }
        return [
            node.named(renamed[name], renamed_from=name) if name in renamed else node.named(name)
            for name, node in made.items()
        ]

    driver = TestDriver(described(0))
    for step in range(2):
        for number in range(12):
            at_ms = BEGIN_MS + (step * 12 + number) * MINUTE_MS
            driver.pipe("events", key="ab"[number % 2], value={"value": number % 3}, timestamp_ms=at_ms)
        driver.cut([] if step else None)  # the log goes on, the nodes rest
    names = {"minutes": "of_a_minute", "totals": "sums", "numbers": "values"}
    same, renamed = (driver.plan_rows(each, sample=sample) for each in (described(1), described(1, **names)))
    assert [names[each.node] for each in same.nodes] == [each.node for each in renamed.nodes]
    for before, after in zip(same.nodes, renamed.nodes, strict=True):
        assert (after.outcome, after.rows) == (
            "rebuilt",
            before.rows,
        )  # before: compared with the end of its log
        assert after.rows is not None
        assert after.rows.total
    driver.close()


def test_logs_that_are_too_large_are_named_with_their_size(
    answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, *_ = answers
    monkeypatch.setattr(planned, "LOCAL_BYTES", 0)
    monkeypatch.setattr(planned, "NodeRunner", None)  # the size is known before anything is read
    with pytest.raises(TerminalError, match=r"read logs of .* kB"):
        planned_rows(old._session, old.lake, [*nodes(left_out=AFTER).values()])
    monkeypatch.setattr(planned, "LOCAL_BYTES", 1 << 30)
    monkeypatch.setattr(planned, "KEYED_BYTES", 0)
    monkeypatch.setattr(planned, "replayed_rows", None)
    with pytest.raises(TerminalError, match=r"Without Spark 0 bytes are read"):
        planned_rows(old._session, old.lake, [*nodes(left_out=AFTER).values()], sample=2)


def rows_of(
    driver: TestDriver, kind: str, names: Sequence[str] = (), keys: Collection[Any] = ((),)
) -> Counter[Any]:
    """The rows of a node whose values of some columns are among some keys."""
    node = driver._nodes[name_of(kind)]
    stored = LocalViews(driver._session, driver.lake).stored(node)
    rows = stored.results if node.has_days else stored.table
    own = [row for row in rows.to_pylist() if identity(row[name] for name in names) in keys]
    return Counter(identity(row[name] for name in node.columns) for row in own)


def files(driver: TestDriver) -> set[str]:
    return {str(path) for path in Path(driver.lake.root.removeprefix("file:")).rglob("*") if path.is_file()}
