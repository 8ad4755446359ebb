"""Each change of code on which rows depend changes the fingerprint; what a fingerprint cannot see is refused."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value

import headrace as hr
from headrace.nodes.descriptions.compare_rules import compare_rules
from tests.description.code_changes import CHANGES, HELPERS, REFUSED, SAME, pipeline
from tests.description.refusal import refused
from tests.description.seldom_code import SELDOM

pytestmark = pytest.mark.fast

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """A package with these modules, in a folder of its own, as a new process imports it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = 0

    def load(package: str = "shop", **modules: str) -> ModuleType:
        nonlocal made
        made += 1
        folder = tmp_path / str(made) / package
        folder.mkdir(parents=True)
        for name, text in {"__init__": "", **modules}.items():
            (folder / f"{name}.py").write_text(text)
        with monkeypatch.context() as path:
            path.syspath_prepend(str(folder.parent))
            for name in [name for name in sys.modules if name.partition(".")[0] == package]:
                del sys.modules[name]
            return importlib.import_module(f"{package}.pipeline")

    yield load
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "store")]:
        del sys.modules[name]


@pytest.mark.parametrize("change", [*CHANGES, *SELDOM])
def test_a_change_of_code_is_seen(change: str, load: Load) -> None:
    head, use, before, after = (CHANGES | SELDOM)[change]
    modules = {"pipeline": pipeline(head, use), "helpers": HELPERS}
    assert sum(before in text for text in modules.values()) >= 1
    changed = {name: text.replace(before, after, 1) for name, text in modules.items()}
    if before in head:
        changed["helpers"] = HELPERS
    one, same, other = (load(**each).node for each in (modules, modules, changed))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert any("code" in line for line in compare_rules(one.rules(), other.rules()).others)


@pytest.mark.parametrize("name", SAME)
def test_what_alters_no_row_is_not_seen(name: str, load: Load) -> None:
    head, use, instead = SAME[name]
    one, other = (load(pipeline=pipeline(each, use)).node for each in (head, instead))
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_fingerprint_cannot_see_is_refused_with_the_way_out(name: str, load: Load) -> None:
    head, use, *words = REFUSED[name]
    with refused("process: a fingerprint cannot see", *words):
        load(pipeline=pipeline(head, use), helpers=HELPERS)


def test_a_name_that_is_not_there_yet_is_refused(load: Load) -> None:
    with refused(
        "process: Convert.process refers to 'LATER', which is not defined yet", "before the node is described"
    ):
        load(pipeline=pipeline("", "LATER") + "\nLATER = 3\n")
    with refused("process: Convert.process refers to 'shop.helpers.LATER', which is not defined yet"):
        load(pipeline=pipeline("from shop import helpers", "helpers.LATER"), helpers="")


def test_the_way_out_of_a_class_is_its_reduce(load: Load) -> None:
    head = (
        "import threading\nclass Held:\n    def __init__(self, by): self.by, self.lock = by, threading.Lock()\n"
        "    def __reduce__(self): return Held, (self.by,)\nHELD = Held(2)"
    )
    one, same, other = (
        load(pipeline=pipeline(each, "HELD.by")).node
        for each in (head, head, head.replace("Held(2)", "Held(3)"))
    )
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


AGGREGATE = """
import headrace as hr
from functools import cache
LIMIT = 3

@cache
def bounded(n):
    return min(n, LIMIT)

class Base(hr.Aggregate):
    state, result = "n BIGINT", "BIGINT"
    def init(self): return {"n": 0}
    def merge(self, one, other): return {"n": bounded(one["n"] + other["n"])}
    def finish(self, state): return state["n"]

class Bounded(Base):
    def __init__(self, by): self.by = by
    def add(self, state, n): return {"n": bounded(state["n"] + n * self.by)}

lines = hr.Topic("lines", key="a STRING", value="n BIGINT")
node = lines.group_by("a").aggregate(n=Bounded(1).of("n")).named("bounded")
"""
TRANSFORM = """
import headrace as hr
LIMIT = 3

def bounded(frame):
    return frame.where(f"n < {LIMIT}")

def transformed(frame):
    return bounded(frame).limit(1)

lines = hr.Topic("lines", key="a STRING", value="n BIGINT")
node = lines.transform(transformed, columns="a STRING, n BIGINT").group_by("a").aggregate(n=hr.count()).named("b")
"""
FUNCTION = """
import headrace as hr
LIMIT = 3

def bounded(key, records, state):
    for record in records:
        yield {"n": min(record["n"], LIMIT)}

lines = hr.Topic("lines", key="a STRING", value="n BIGINT")
node = lines.group_by("a").process(hr.processor(bounded, state="n BIGINT"), output="n BIGINT").named("b")
"""


@pytest.mark.parametrize("text", [AGGREGATE, TRANSFORM, FUNCTION], ids=["aggregate", "transform", "function"])
def test_what_an_aggregate_a_transform_or_a_function_refers_to_is_seen(text: str, load: Load) -> None:
    one, same, other = (
        load(pipeline=each).node for each in (text, text, text.replace("LIMIT = 3", "LIMIT = 4"))
    )
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_what_an_aggregate_inherits_and_carries_is_seen(load: Load) -> None:
    changes = ["one['n'] - other['n']", "Bounded(2)", 'return state["n"] + 1']
    texts = [
        AGGREGATE,
        AGGREGATE.replace('one["n"] + other["n"]', changes[0]),
        AGGREGATE.replace("Bounded(1)", changes[1]),
        AGGREGATE.replace('return state["n"]', changes[2]),
    ]
    assert len({load(pipeline=text).node.fingerprint() for text in texts}) == 4


def test_it_goes_by_no_name_of_a_module_and_by_no_folder(load: Load) -> None:
    text = pipeline("from {0}.helpers import half\nBY = 7", "half(BY)")
    one, other = (
        load(package, pipeline=text.replace("{0}", package), helpers=HELPERS).node
        for package in ("shop", "store")
    )
    assert one.fingerprint() == other.fingerprint()


def test_it_is_equal_in_the_program_itself_and_whatever_the_seed_of_hashes(tmp_path: Path) -> None:
    head = "NAMES = {'a', 'b', ('c', frozenset('de'))}\nfrom functools import cache\n@cache\ndef half(n): return n // len(NAMES)"
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    text = pipeline(head, "half(3)") + "\nprint(node.fingerprint())\n"
    (tmp_path / "shop" / "pipeline.py").write_text(text)
    printed = set()
    for seed, program in [("1", ["-m", "shop.pipeline"]), ("2", ["-c", "import shop.pipeline"])]:
        paths = f"{tmp_path}:{hr.__file__.removesuffix('/headrace/__init__.py')}"
        environment = {"PYTHONPATH": paths, "PYTHONHASHSEED": seed}
        command = [sys.executable, *program]
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
        )
        printed.add(run.stdout.strip())
    assert len(printed) == 1


def test_a_change_is_told_by_its_path(load: Load) -> None:
    head = "BY = 2\ndef half(n):\n    return n // BY"
    one, other = (load(pipeline=pipeline(each, "half(3)")).node for each in (head, head.replace("2", "3")))
    assert compare_rules(one.rules(), other.rules()).others == (
        "processor, code of Convert.process/half/BY: 2 -> 3",
    )
    other = load(pipeline=pipeline(head.replace("//", "%"), "half(3)")).node
    assert compare_rules(one.rules(), other.rules()).others == (
        "processor, code of Convert.process/half changed",
    )


@pytest.mark.parametrize(
    "text", [AGGREGATE, FUNCTION, pipeline("", "3")], ids=["aggregate", "function", "class"]
)
def test_code_that_workers_cannot_import_is_refused(text: str, tmp_path: Path, load: Load) -> None:
    """The module is made of a file by its path, as some tools load a file of a user."""
    (tmp_path / "loose.py").write_text(text)
    spec = importlib.util.spec_from_file_location("loose", tmp_path / "loose.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["loose"] = importlib.util.module_from_spec(spec)
    try:
        with refused(
            "Spark's workers cannot import",
            "no folder of the import path has its module 'loose'",
            "PYTHONPATH",
        ):
            spec.loader.exec_module(module)
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        spec.loader.exec_module(module)  # its code travels by value, so nobody imports it
        unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    finally:
        del sys.modules["loose"]
    load(pipeline=text)  # a package that is found is not refused


def described(head: str, use: str, load: Load) -> Mapping[str, object]:
    code: Mapping[str, object] = load(pipeline=textwrap.dedent(pipeline(head, use))).node.code
    return code


def test_code_without_a_text_counts_by_its_bytecode(load: Load) -> None:
    head = "space = {}\nexec('def half(n): return n // 2', space)\nhalf = space['half']\nhalf.__globals__['__name__'] = __name__"
    one, same, other = (
        described(each, "half(3)", load) for each in (head, head, head.replace("// 2", "// 3"))
    )
    assert one == same != other
