"""`hr.local()`: what it sends arrives, or it says so. The notebook of the documents tries all of it on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import headrace as hr
from headrace.errors import TerminalError, TransientError
from headrace.local import workbench
from headrace.local.workbench import Workbench

pytestmark = pytest.mark.fast
READINGS = hr.Topic("readings", key="id STRING", value="id STRING, n INT")


class Producer:
    """A client of a broker that takes no record whose value is of a certain text."""

    sent: ClassVar[list[tuple[bytes | None, bytes | None]]] = []

    def __init__(self, options: Any) -> None:
        self.refuses = b'{"id": "refused"}'

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        on_delivery: Callable[[Any, Any], None],
    ) -> None:
        self.sent.append((key, value))
        on_delivery("it is too large" if value == self.refuses else None, None)

    def flush(self, seconds: float) -> int:
        return 0


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.setattr(Producer, "sent", [])
    monkeypatch.setattr(workbench, "Producer", Producer)
    monkeypatch.setattr(Workbench, "bootstrap_servers", "127.0.0.1:1")
    found = Workbench.__new__(Workbench)  # without a broker
    found._made = {READINGS.name}
    monkeypatch.setattr(workbench, "create_topics", lambda *_: None)
    return found


def test_a_record_that_the_broker_refuses_is_an_error(here: Workbench) -> None:
    with pytest.raises(TransientError, match="'readings': the broker did not take 1 of 2 records") as error:
        here.send(READINGS, {"id": "a"}, {"id": "refused"})
    assert "it is too large" in str(error.value)


def test_a_time_that_kafka_takes_for_another_is_refused(here: Workbench) -> None:
    with pytest.raises(TerminalError, match="takes 0 for the present"):
        here.send(READINGS, {"id": "a"}, at="1970-01-01T00:00:00Z")


def test_a_key_that_is_null_is_no_text(here: Workbench) -> None:
    assert here.send(READINGS, {"id": None, "n": 1}, {"id": "a"}) == 2
    assert [key for key, _ in Producer.sent] == [None, b"a"]
