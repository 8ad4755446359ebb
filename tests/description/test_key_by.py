"""The same records by another key: what follows from it, and what is refused."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.description.node_output import written_by
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

CLICKS = hr.Topic(
    "clicks", key="id STRING", value="user STRING, page STRING, at TIMESTAMP, tags MAP<STRING, INT>"
)
VIEWS = hr.Topic(
    "views", key="user STRING", value="id STRING, page STRING, at TIMESTAMP, tags MAP<STRING, INT>"
)
BY_USER = CLICKS.key_by("USER")


def test_tables_groups_named_streams_and_processors_go_by_the_new_key() -> None:
    assert BY_USER.table().columns[0] == "user"
    assert BY_USER.group_by().by == ("user",)
    assert BY_USER.named("clicks_by_user").key == ("user",)
    assert BY_USER.where("page <> ''").select("user", "page").table().key == ("user",)
    assert BY_USER.flat_map("map_keys(tags) AS tag", ordinal="n").key == ("user", "n")
    assert BY_USER.distinct(within="1 hour").by == ("user",)
    assert CLICKS.key_by("user", "page").key_by("page").table().key == ("page",)


def test_a_tombstone_deletes_a_row_only_if_it_has_the_new_key() -> None:
    pairs = hr.Topic("pairs", key="a STRING, b STRING", value="c STRING")
    assert pairs.table().tombstones_delete
    assert pairs.key_by("b").table().tombstones_delete
    assert not pairs.key_by("b", "c").table().tombstones_delete


def test_sessions_by_another_key_read_a_log_of_one_partition() -> None:
    windows = BY_USER.select("user", "page").group_by().window(hr.session("5 minutes"), grace="0 s")
    (topic,) = windows.aggregate(n=hr.count()).topics
    step = written_by(topic)
    assert step is not None
    assert (step.required_name[:8], step.key, topic.has_one_partition) == ("unnamed_", ("user",), True)
    own = VIEWS.group_by().window(hr.session("5 minutes"), grace="0 s").aggregate(n=hr.count())
    assert [topic.name for topic in own.topics] == ["views"]
    by_wall = BY_USER.select("user", "page").group_by().window(hr.tumbling("1 minute"), clock="wall")
    limited = by_wall.aggregate(n=hr.count()).suppress(hr.until_time_limit("1 minute", clock="wall"))
    assert limited.topics[0].has_one_partition


def test_the_key_is_among_what_alters_a_nodes_log() -> None:
    names = {each.named("rows").fingerprint() for each in (CLICKS.stream, BY_USER, CLICKS.key_by("page"))}
    assert len(names) == 3


def test_streams_of_one_key_are_merged_and_others_refused() -> None:
    columns = ("id", "user", "page")
    merged = BY_USER.select(*columns).merge(VIEWS.select(*columns))
    assert merged.table().key == ("user",)
    with refused("merge: the left stream is keyed by user, the right one by id", ".merge(…).key_by('…')"):
        BY_USER.select(*columns).merge(hr.Topic("more", key="id STRING", value="user STRING, page STRING"))
    other = CLICKS.select(*columns).merge(VIEWS.select(*columns))
    assert other.key_by("page").group_by().by == ("page",)


def test_what_is_no_key_is_refused() -> None:
    with refused("key_by: column 'usr' does not exist", "user"):
        CLICKS.key_by("usr")
    with refused("no columns", ".key_by('…')"):
        CLICKS.key_by()
    with refused("key_by: column 'tags' is MAP<STRING, INT>"):
        CLICKS.key_by("tags")
    with refused("key_by: a transform leaves the columns unknown"):
        CLICKS.transform(lambda rows: rows).key_by("user")
    with refused("table: key column 'user' is gone"):
        BY_USER.select("id", "page").table()
    with refused(".changes().key_by('…').table()"):
        CLICKS.table().key_by("user")  # type: ignore[attr-defined]
    with refused("key_by"):
        CLICKS.select_key("user")  # type: ignore[attr-defined]


def test_refusals_of_other_groups_lead_to_it() -> None:
    with refused("but topic 'clicks' is keyed by id", ".key_by('user') before .group_by"):
        CLICKS.group_by("user").window(hr.session("1 minute"), grace="0 s")
    with refused("topic 'keyless' has no key", ".key_by('…').table()"):
        hr.Topic("keyless", value="user STRING").table()


def test_its_topology_says_the_key() -> None:
    assert str(
        hr.describe(CLICKS.where("page <> ''").key_by("user").table().named("newest"))
    ).splitlines() == [
        "newest",
        "└─ latest row by user, by position",
        "   └─ key by user",
        "      └─ where page <> ''",
        "         └─ topic clicks (key id; user, page, at, tags)",
    ]
