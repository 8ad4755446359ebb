"""What a node is made of, as text and as a picture."""

from __future__ import annotations

import re

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


class Reminds(hr.Processor):
    """Gives each record again after 20 seconds."""

    def init(self, context: hr.Context) -> None:
        context.schedule("20 seconds", self.remind, clock="wall")

    def process(self, record: hr.Record) -> None:
        """Nothing."""

    def remind(self, moment: object) -> None:
        """Nothing."""


READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
SENSORS = hr.Topic("sensors", key="sensor_id STRING", value="site STRING")
COUNTS = (
    READINGS.where("value >= 0")
    .group_by("sensor_id")
    .window(hr.tumbling("2 minutes"), grace="1 minute")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .to(hr.KafkaSink("counts"))
    .named("reading_counts")
)
SITES = READINGS.lookup(SENSORS.table().where("site > ''"), on="sensor_id", complete_first=False).named(
    "sites"
)


def test_the_text_goes_from_the_table_back_to_the_topics() -> None:
    assert str(hr.describe(COUNTS)) == (
        "reading_counts, to kafka-counts\n"
        "└─ suppress until the window closes\n"
        "   └─ by sensor_id and tumbling window of 2 minutes, grace 1 minute: n = count(), total = sum(value)\n"
        "      └─ where value >= 0\n"
        "         └─ topic readings (key sensor_id; value)"
    )
    assert str(hr.describe(SITES)) == (
        "sites\n"
        "└─ left lookup on sensor_id, as of the log\n"
        "   ├─ topic readings (key sensor_id; value)\n"
        "   └─ where site > ''\n"
        "      └─ latest row by sensor_id, by position\n"
        "         └─ topic sensors (key sensor_id; site)"
    )


def test_guards_formats_waits_and_sinks_are_said_where_they_are_not_as_everywhere() -> None:
    """Before: the topic, the processor and the sink said none of this."""
    guard = hr.ReplayGuard(header="chain", mode="exact")
    topic = hr.Topic(
        "lines", key="n BIGINT", key_format=hr.Number("int64"), value="line STRING", format=hr.Text(),
        replay_guard=guard, idle_timeout="5 minutes",
    )  # fmt: skip
    store = hr.value_store("last", "last STRING")
    made = topic.group_by("n").process(Reminds, output="n BIGINT, line STRING", stores=[store])
    node = made.to(hr.KafkaSink("out", format=hr.Text())).named("reminders")
    described = hr.describe(node)
    assert str(described).splitlines() == [
        "reminders, to kafka-out (values Text)",
        "└─ One row for each that Reminds forwards, by n, stores last, timers of the wall clock up to 20 seconds",
        "   └─ topic lines (key n; line), keys Number int64, values Text, exact replay guard by chain, idle after 5 minutes",
    ]
    assert '>"kafka-out (values Text)"]' in described.mermaid
    timed = hr.Topic("t", value="at BIGINT", timestamp="at", idle_timeout=None).named("rows")
    assert str(hr.describe(timed)).endswith("topic t (at), event time at, never idle")


def test_a_step_that_only_spark_computes_is_marked() -> None:
    topic = hr.Topic("pages", key="k STRING", value="url STRING, words INT")
    described = str(hr.describe(topic.where("words > 3").where("url RLIKE '/a+'").select("k").named("long")))
    assert "where url RLIKE '/a+'  (by Spark)\n" in described
    assert "where words > 3\n" in described
    table = topic.table().where("url RLIKE '/a+'").select("k", "initcap(url) AS title").named("titles")
    assert [line.endswith("(by Spark)") for line in str(hr.describe(table)).splitlines()[1:4]] == [
        True,
        True,
        False,
    ]


def test_columns_that_hold_the_expressions_of_aggregates_are_no_steps_of_a_person() -> None:
    lines = hr.Topic("lines", key="shop STRING", value="price DOUBLE, quantity INT, ok BOOLEAN, note STRING")
    sums = lines.with_column("gross price", "price * 1.19").group_by("shop")
    node = sums.aggregate(
        total=hr.sum("price * quantity"),
        good=hr.count(where="ok AND price > 0"),
        paid=hr.sum("price * quantity", where="ok"),
        note=hr.min_by("note", by="price + 1"),
    )
    assert (
        [line.strip() for line in str(hr.describe(node.named("sums"))).splitlines()][2:]
        == [
            "└─ with column gross price = price * 1.19",  # before: four more, as price * quantity = price * quantity
            "└─ topic lines (key shop; price, quantity, ok, note)",
        ]
    )


def test_two_nodes_of_one_name_are_refused() -> None:
    other = READINGS.where("value > 1").named("reading_counts")
    with refused("Two nodes are named 'reading_counts'.", "Give each its own name"):
        hr.describe(COUNTS, other)


def test_in_the_picture_each_part_stands_once_and_arrows_lead_to_sinks() -> None:
    lines = hr.describe(COUNTS, SITES).mermaid.splitlines()
    assert lines[0] == "flowchart LR"
    boxes = {box: words for line in lines for box, words in re.findall(r'^  (p\d+)\W+"(.*)"\W+$', line)}
    assert len({*boxes.values()}) == len(boxes)
    named = {words: box for box, words in boxes.items()}
    topic = named["topic readings (key sensor_id; value)"]
    assert f"  {topic} --> {named['where value #gt;= 0']}" in lines
    assert f"  {topic} --> {named['left lookup on sensor_id, as of the log']}" in lines
    assert f"  {named['reading_counts, to kafka-counts']} --> {named['kafka-counts']}" in lines
    arrows = [line for line in lines if "-->" in line]
    assert len({*arrows}) == len(arrows) == 10


@pytest.mark.parametrize(
    "node",
    [
        READINGS.named("all"),
        READINGS.table().named("latest"),
        READINGS.group_by().aggregate(n=hr.count()).named("totals"),
        READINGS.group_by().batch(max_records=3, collect=["value"]).named("batches"),
        READINGS.table().join(SENSORS.table(), on="sensor_id").named("joined"),
        SENSORS.table().group_by("site").aggregate(n=hr.count()).named("grouped"),
        SENSORS.table().group_by("site").aggregate(n=hr.count()).changes().named("told"),
        READINGS.group_by()
        .aggregate(n=hr.count())
        .suppress(hr.until_time_limit("1 minute"))
        .named("limited"),
    ],
    ids=lambda node: node.name,
)
def test_every_kind_of_node_leads_back_to_its_topics(node: hr.description.Node) -> None:
    text = str(hr.describe(node))
    assert text.startswith(f"{node.name}\n└─ ")
    assert all(f"topic {topic.name} (" in text for topic in node.topics)


def test_text_cannot_break_out_of_the_picture() -> None:
    odd = READINGS.where('value > 0 -- "]; <b>`\n').named("odd")
    picture = hr.describe(odd).mermaid
    assert "where value #gt; 0 -- #quot;]; #lt;b#gt;#96;<br>" in picture
