"""An error of an expression marks the place in its text."""

from __future__ import annotations

import pytest

import headrace as hr

pytestmark = pytest.mark.fast
VIEWS = hr.Topic(
    "views", key="user STRING", value="page STRUCT<url: STRING, words: INT>, ts BIGINT, ok BOOLEAN"
)
USERS = hr.Topic("users", key="user STRING", value="name STRING, home STRUCT<city: STRING>")


@pytest.mark.parametrize(
    ("sql", "mark"),
    [
        ("page.ur = 'a'", "     ^^"),
        ("ok AND page['ur'] = 'a'", "            ^^^^"),
        ("tss > 3 AND ok", "^^^"),
        ("ok AND uper(page.url) = 'A'", "       ^^^^"),
        ("1 = sum(ts)", "    ^^^"),
        ("upper(page.url, 'x') = ''", "^^^^^"),
        ("ts > now()", "     ^^^"),
        ("timestampdiff(SECONDS, a, b) > 3", "              ^^^^^^^"),
        ("ok OR page.words", "           ^^^^^"),
        ("page.url = NULL", "     ^^^"),
        ("ts ISNULL", "   ^^^^^^"),
        ("ts ! 3", "   ^"),
        ("CAST('now' AS TIMESTAMP) IS NULL", "     ^^^^^"),
        ("ok\n  AND page.wordz > 3", "           ^^^^^"),
        (f"{'ok AND ' * 40}tss > 3", None),
    ],
)
def test_the_place_is_marked(sql: str, mark: str | None) -> None:
    with pytest.raises(hr.DescriptionError) as refused:
        VIEWS.where(sql)
    line, carets = (refused.value.detail or "").split("\n")
    if mark is None:
        assert len(line) < 120
        assert line[carets.index("^") :].startswith("tss > 3")
    else:
        assert (line, carets) == (f"    {sql.splitlines()[-1]}", f"    {mark}")
    assert carets in str(refused.value).splitlines()


def test_in_selects_aggregates_and_joins_too() -> None:
    with pytest.raises(hr.DescriptionError) as refused:
        VIEWS.select("user", "page.urll AS url")
    assert refused.value.detail == "    page.urll AS url\n         ^^^^"
    with pytest.raises(hr.DescriptionError) as refused:
        VIEWS.group_by("user").aggregate(n=hr.sum("ts * tss"))
    assert refused.value.detail == "    ts * tss\n         ^^^"
    with pytest.raises(hr.DescriptionError) as refused:
        VIEWS.table().join(USERS.table(), on="user", select=("right.home.citi AS city",))
    assert refused.value.detail == "    right.home.citi AS city\n               ^^^^"
