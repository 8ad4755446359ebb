"""`put_if_absent` of a processor's stores: the first value of a key stays."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast


class First(hr.Processor):
    """Tells each visit with the first page of its user, and of the day."""

    def init(self, context: hr.Context) -> None:
        self.context, self.first, self.days = context, context.store("first"), context.store("days")

    def process(self, record: hr.Record) -> None:
        own = self.first.put_if_absent(record["page"])
        of_day = self.days.put_if_absent(record["day"], record["page"])
        self.context.forward(user=record["user"], page=record["page"], first=own, of_day=of_day)


def test_the_first_value_stays_and_is_given() -> None:
    visits = hr.Topic("visits", key="user STRING", value="page STRING, day INT", idle_timeout=None)
    stores = [hr.value_store("first", "page STRING"), hr.key_value_store("days", "day INT", "page STRING")]
    node = visits.group_by().process(
        First, output="user STRING, page STRING, first STRING, of_day STRING", stores=stores
    )
    driver = TestDriver([node.named("firsts")])
    for page, day in (("/", 1), ("/a", 1), ("/b", 2), ("/c", 2)):
        driver.pipe("visits", key="u", value={"page": page, "day": day})
        driver.cut()
    rows = {(row["page"], row["first"], row["of_day"]) for row in driver.rows("firsts")}
    assert rows == {("/", None, None), ("/a", "/", "/"), ("/b", "/", None), ("/c", "/", "/b")}
    driver.close()
