"""The reference cannot drift: settings, pictures, and pages that are made of the code."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import headrace as hr
from docs.tools import expressions, pictures, reference
from docs.tools.members import members_of
from docs.tools.readable import readable
from headrace.cli import GROUPS
from headrace.cli.commands import EXIT_CODES
from headrace.cli.configuring import SECTIONS
from headrace.observe.figures import MEANINGS
from headrace.quality.results import CLAIMS
from tests.docs.documents import ROOT, anchors

pytestmark = pytest.mark.fast
VARIABLE = re.compile(r"\bHEADRACE_[A-Z0-9_]+[A-Z0-9]\b")


def variables(path: Path) -> set[str]:
    return set(VARIABLE.findall(path.read_text(encoding="utf-8")))


def test_every_variable_that_the_code_reads_is_on_the_page() -> None:
    code = [
        *(ROOT / "platform").rglob("*.py"),
        *(ROOT / "jobs").rglob("*.py"),
        ROOT / "deploy/jars/resolve.py",
    ]
    read = set().union(*map(variables, code)) | {
        f"{section.model_config.get('env_prefix', '')}{name}".upper()
        for section in SECTIONS
        for name in section.model_fields
    }
    shown = variables(ROOT / "docs" / "settings.md")
    assert read - shown == set(), "add them to docs/settings.md"
    assert shown - read == set(), "nothing reads them"


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_what_its_script_draws(name: str) -> None:
    drawn = pictures.PICTURES[name]().svg()
    assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == drawn, (
        "run docs/tools/pictures.py"
    )


def test_the_api_page_has_every_public_name_once() -> None:
    page = reference.api()
    assert not [
        name for name in hr.__all__ if len(re.findall(rf"^::: \S+\.{name}$", page, re.MULTILINE)) != 1
    ]


def test_the_page_of_expressions_has_each_function_by_what_the_code_covers() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", expressions.page(), re.MULTILINE))
    first = "upper lower trim length substring concat concat_ws split_part startswith endswith contains greatest least abs"
    evaluated = rows["evaluated"] + rows["evaluated for some types or arguments"]
    assert not [name for name in first.split() if f"`{name}`" not in evaluated]
    assert "`regexp_replace`" in rows["type known, computed by Spark"]
    assert "`BIGINT`" in rows["`DIV`"]
    assert "`TIMESTAMP`" in rows["DATE"]


@pytest.mark.slow
def test_the_page_of_commands_has_every_exit_code_and_command() -> None:
    page = reference.command_line()
    assert not [code for code, means in EXIT_CODES.items() if f"| {code} | {means} |" not in page]
    assert not [name for names in GROUPS.values() for name in names if f"`headrace {name}`" not in page]
    assert page.count("* `--json`") >= sum(map(len, GROUPS.values()))


def test_the_metrics_page_has_every_figure() -> None:
    page = reference.metrics()
    assert not [name for name, meaning in MEANINGS.items() if f"| {meaning} |" not in page]


def test_the_page_of_checks_has_every_claim() -> None:
    page = reference.checks()
    assert not [name for name, claim in CLAIMS.items() if f"| `{name}` | {claim} |" not in page]
    assert (
        "| `late_drops_below` | Few of the records delivered came after every window of theirs had closed. | warn |"
        in page
    )


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is my data late or lost?", "guides/backfills-and-checks.md"),
        ("What happens when I change the window?", "guides/changing.md"),
        ("What does it cost at 50,000 records a second?", "scaling.md"),
    ],
)
def test_the_questions_of_three_readers_are_answered_within_two_clicks(question: str, answer: str) -> None:
    first = (ROOT / "README.md").read_text(encoding="utf-8")
    (anchor,) = re.findall(rf"\[{re.escape(question)}\]\(docs/concepts\.md#([^)]+)\)", first, re.IGNORECASE)
    concepts = ROOT / "docs" / "concepts.md"
    assert anchor in anchors(concepts)
    said = concepts.read_text(encoding="utf-8").split(f"### {question}")[1].partition("###")[0]
    assert f"]({answer}" in said


def test_docstrings_become_lists_and_paragraphs() -> None:
    text = "Do it.\n\nIn:  one    the first\n     other  the second\nOut: rows\nRaises: DescriptionError"
    assert readable(text).splitlines() == [
        "Do it.",
        "",
        "",
        "**In:** ",
        "",
        "- `one`: the first",
        "- `other`: the second",
        "",
        "**Out:** rows",
        "",
        "**Raises:** DescriptionError",
    ]


def documented() -> dict[str, object]:
    """What the page of the interface shows: each name, and the members that it shows of a class."""
    paths = re.findall(r"^::: (\S+)$", reference.api(), re.MULTILINE)
    shown = {path: getattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in paths}
    classes = [(path, each) for path, each in shown.items() if inspect.isclass(each)]
    return shown | {
        f"{path}.{name}": getattr(each, name) for path, each in classes for name in members_of(each)
    }


def test_each_parameter_that_the_reference_describes_is_a_line() -> None:
    pages = {path: readable(inspect.getdoc(each) or "") for path, each in documented().items()}
    with_inputs = {path: text for path, text in pages.items() if "**In:**" in text}
    assert len(with_inputs) > 60
    assert not [path for path, text in with_inputs.items() if "**In:** \n\n- `" not in text]


def test_the_reference_shows_no_question_of_the_platform() -> None:
    shown = {path.rpartition(".")[2] for path in documented()}
    assert {"where", "group_by", "suppress", "named", "deliver", "stream_time"} <= shown
    assert not shown & {"behind_clock_ms", "in_words", "fingerprint", "how_to_type", "rules", "reached_by"}
