"""Each kind of node has an operator, and the operator's answers follow from the description."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace import description
from headrace.description import Node
from headrace.description.lookup import EVENT
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Operator
from headrace.operators.registry import KINDS, operator_for

pytestmark = pytest.mark.fast

OPERATORS = Path(inspect.getfile(Operator)).parent
VIEWS = hr.Topic("views", key="user STRING", value="page STRING")
CLICKS = hr.Topic("clicks", key="user STRING", value="button STRING")
USERS = hr.Topic("users", key="user STRING", value="city STRING")


class Pass(hr.Processor):
    def process(self, record: hr.Record) -> None: ...


def reference_topics(node: Node) -> tuple[str, ...]:
    """The topics that hold no time back."""
    return tuple(topic.name for topic in node.topics if topic.name not in operator_for(node).driving)


def test_each_kind_of_node_has_an_operator() -> None:
    kinds = {
        name
        for name, found in vars(description).items()
        if inspect.isclass(found) and issubclass(found, Node) and not inspect.isabstract(found)
    }
    windows = {"TimeWindows", "CalendarWindows", "SessionWindows", "SlidingWindows"}
    assert KINDS.keys() == kinds - {"WindowedAggregate"} | windows


@pytest.mark.parametrize("protocol", [Operator, Kernel])
def test_a_protocol_stays_small(protocol: type) -> None:
    members = [name for name in vars(protocol) if not name.startswith("_")]
    assert len(members) <= 10


def test_a_folder_of_an_operator_imports_nothing_by_itself() -> None:
    assert all("import" not in path.read_text() for path in OPERATORS.glob("*/__init__.py"))


def test_an_operator_is_imported_when_it_is_asked_for() -> None:
    program = (
        "import sys, headrace.operators.registry\n"
        "loaded = [name for name in sys.modules if name.startswith('headrace.operators.')]\n"
        "assert sorted(loaded) == ['headrace.operators.registry'], loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_table_of_a_lookup_as_of_the_log_is_reference() -> None:
    by_log = VIEWS.stream.lookup(USERS.table(), on="user")
    by_time = VIEWS.stream.lookup(USERS.table(), on="user", as_of=EVENT)
    assert (operator_for(by_log).driving, reference_topics(by_log)) == (("views",), ("users",))
    assert (operator_for(by_time).driving, reference_topics(by_time)) == (("views", "users"), ())


def test_a_topic_that_is_both_drives() -> None:
    users = USERS.stream.select("user AS id", "city AS town")
    node = users.lookup(USERS.table(), on="id")
    assert (operator_for(node).driving, reference_topics(node)) == (("users",), ())


def test_a_global_table_is_reference() -> None:
    table = hr.global_table("users", USERS.table())
    node = VIEWS.stream.group_by("user").process(Pass, output="user STRING", stores=[table])
    assert (operator_for(node).driving, reference_topics(node)) == (("views",), ("users",))


def test_merges_joins_and_earlier_records_drive() -> None:
    views, clicks = VIEWS.stream, CLICKS.stream
    merged = views.select("user").merge(clicks.select("user")).group_by("user").aggregate(n=hr.count())
    joined = views.join(clicks, on="user", within="1 minute", grace="0 s")
    prior = views.join_prior(clicks, on="user", grace="1 minute")
    for node in (merged, joined, prior):
        assert ({*operator_for(node).driving}, reference_topics(node)) == ({"views", "clicks"}, ())
