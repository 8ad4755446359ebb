"""A wrong call names the way on: a method that the next type does not have, and arguments that do not fit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import headrace as hr
from headrace.description.ways_on import WAYS
from tests.description.refusal import refused

pytestmark = pytest.mark.fast
VIEWS: Any = hr.Topic("views", key="user STRING", value="page STRING, n BIGINT")
USERS: Any = hr.Topic("users", key="id STRING", value="country STRING").table()
NESTED: Any = hr.Topic("nested", value="user STRUCT<id: STRING>")
GROUPED: Any = VIEWS.group_by("page")
WINDOWED: Any = GROUPED.window(hr.tumbling("5 minutes"), grace="1 minute")
TOTALS: Any = GROUPED.aggregate(n=hr.count())
FINALS: Any = WINDOWED.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("finals")
CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "topic.suppress": (lambda: VIEWS.suppress(hr.until_window_closes()), (".suppress(…)", ".suppress(hr.until_window_closes())")),
    "topic.window": (lambda: VIEWS.window(hr.tumbling("1 minute")), ("window: grace is missing", "grace='2 minutes'")),
    "topic.filter": (lambda: VIEWS.filter("n > 1"), (".filter(…)", "Write .where(…).")),
    "topic.wher": (lambda: VIEWS.wher("n > 1"), ("Did you mean 'where'?",)),
    "topic.zzzz": (lambda: VIEWS.zzzz(), ("It goes on with", "group_by")),
    "totals.table": (lambda: TOTALS.table(), ("A table has no .table(…).", "leave .table() out")),
    "table.lookup": (lambda: USERS.lookup(USERS, on="id"), (".join(table, on='…', how='left')",)),
    "grouped.where": (lambda: GROUPED.where("n > 1"), ("A grouped stream", "Write .where(…) before .group_by(…).")),
    "grouped.suppress": (lambda: GROUPED.suppress(None), ("Aggregate first", ".suppress(…)")),
    "windowed.named": (lambda: WINDOWED.named("a"), ("A grouped stream with windows", "Aggregate first: .aggregate(n=hr.count()).named(…).")),
    "totals.group_by.window": (lambda: TOTALS.group_by("n").window(hr.tumbling("1 hour")), ("A grouped table has no .window(…).", ".changes().group_by")),
    "stream.join(table)": (lambda: VIEWS.join(USERS, on="user"), ("a table is neither a topic nor a stream", ".lookup(table, on='…')")),
    "stream.join(named table)": (lambda: VIEWS.join(USERS.named("users_now"), on="user"), ("a table ('users_now')",)),
    "table.join(stream)": (lambda: USERS.join(VIEWS, on="id"), ("a stream ('views') on the right is no table", "stream.lookup(table")),
    "stream.lookup(stream)": (lambda: VIEWS.lookup(VIEWS, on="user"), ("a stream ('views') is no table",)),
    "join without grace": (lambda: VIEWS.join(VIEWS, on="user", within="1 minute"), ("grace is missing", "grace='2 minutes'")),
    "join on lambda": (lambda: VIEWS.join(VIEWS, on=lambda a, b: a, within=0, grace=0), ("names no columns", "on='id'", "with_column")),
    "lookup on lambda": (lambda: VIEWS.lookup(USERS, on=lambda a, b: a), ("lookup: on=", "names no columns")),
    "table.join on mapping": (lambda: USERS.join(USERS, on=("id", 3)), ("join: on=", "names no columns")),
    "unnamed aggregate": (lambda: GROUPED.aggregate(hr.count()), ("aggregate: 1 arguments have no name, and 0 may have none.", ".aggregate(n=hr.count()")),
    "unnamed of windows": (lambda: WINDOWED.aggregate(hr.count()), (".aggregate(n=hr.count()",)),
    "unnamed of a table": (lambda: USERS.group_by("country").aggregate(hr.count()), (".aggregate(n=hr.count()",)),
    "lookup without on": (lambda: VIEWS.lookup(USERS), ("lookup: 'on' is not given.", "Write .lookup(table, on='…').")),
    "a wrong argument": (lambda: GROUPED.window(hr.tumbling("1 minute"), gracce="1 s"), ("there is no argument 'gracce'", "Did you mean 'grace'?")),
    "until_window_closes of totals": (lambda: TOTALS.suppress(hr.until_window_closes()), ("is for windows, and these rows have none", "hr.until_time_limit('5 minutes')")),
    "topics(valeu=…)": (lambda: hr.topics(["a"], valeu="n INT"), ("Topic: there is no argument 'valeu'", "Did you mean 'value'?")),
    "Topic()": (lambda: hr.Topic(), ("Topic: 'name' is not given.", "Its arguments are")),  # type: ignore[call-arg]
    "KafkaSink(quot=…)": (lambda: hr.KafkaSink("a", quot=None), ("KafkaSink: there is no argument 'quot'", "'quota'")),  # type: ignore[call-arg]
    "Number()": (lambda: hr.Number(kind="int32"), ("Number: there is no argument 'kind'",)),  # type: ignore[call-arg]
    "tumbling(300)": (lambda: hr.tumbling(300), ("300 has no unit", "Write '300 seconds', or '300 ms'")),
    "describe a list": (lambda: hr.describe([FINALS]), ("describe: [", "hr.describe(*nodes)")),  # type: ignore[arg-type]
    "lookup on a struct": (lambda: NESTED.lookup(USERS, on="user"), ("'user' is STRUCT<id: STRING>", ".with_column('user_id', 'user.id')")),
    "hopping(3600)": (lambda: hr.hopping(3600, advance="1 minute"), ("Write '3600 seconds'",)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_call_names_the_way_on(case: str) -> None:
    call, parts = CASES[case]
    with refused(*parts):
        call()


def test_each_way_is_one_that_the_type_does_not_have_itself() -> None:
    values: dict[str, Any] = {
        "stream": VIEWS,
        "table": USERS,
        "grouped stream": GROUPED,
        "grouped table": USERS.group_by("country"),
        "windowed stream": WINDOWED,
    }
    for kind, (_, ways) in WAYS.items():
        assert not [name for name in ways if hasattr(type(values[kind]), name)], kind


class Nameless:
    def deliver(self, rows: object, delivery: object) -> None: ...


def test_a_sink_without_a_name_is_refused() -> None:
    with refused("Nameless", "has no name", "name = 'alerts_mail'"):
        VIEWS.to(Nameless())


def test_private_names_are_those_of_python() -> None:
    assert not hasattr(VIEWS, "__wrapped__")
    assert not hasattr(VIEWS, "with_previous")
    assert getattr(TOTALS, "window", None) is None
    assert copy.copy(TOTALS) == TOTALS
    assert pickle.loads(pickle.dumps(hr.tumbling("1 minute"))) == hr.tumbling("1 minute")


def test_a_type_error_within_a_call_stays_what_it_is() -> None:
    def broken(column: object) -> str:
        return "a" + column  # type: ignore[operator]

    class Sink:
        name = "it"

        def deliver(self, rows: object, delivery: object) -> None: ...

        def check(self, node: object) -> None:
            broken(node)

    with pytest.raises(TypeError, match="concatenate"):
        VIEWS.to(Sink())


def test_a_filter_on_open_windows_names_the_table_of_their_changes() -> None:
    """Before: the hint named final windows alone."""
    topic = hr.Topic("visits", key="page STRING", value="seconds INT")
    windows = topic.group_by().window(hr.tumbling("1 minute"), grace=0).aggregate(n=hr.count())
    with refused("they are no stream", ".changes().table().where(…)"):
        windows.where("n > 1")
    assert windows.changes().table().where("n > 1").named("large").key == ("page", "window_start")
