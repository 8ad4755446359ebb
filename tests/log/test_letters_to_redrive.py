"""Which dead letters can be sent again: what the sequencer would say of them now decides."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from headrace.lifecycle.redrive import Letter, reasons_of
from headrace.log.schema_store import SchemaStore

pytestmark = pytest.mark.fast


def test_a_letter_with_a_malformed_source_chain_would_be_dead_again(tmp_path: Path) -> None:
    topic = hr.Topic("t", value="n INT", replay_guard=hr.ReplayGuard())
    chain = b'[["screws", 0, 1]]'
    letters = [
        Letter((0, 4), None, b'{"n": 1}', [("source-chain", b"?")], 5),
        Letter((0, 7), None, b'{"n": 1}', [("source-chain", chain)], 5),
        Letter((1, 2), None, b"?", [], 5),
        Letter((1, 3), None, b"{}", [], None),
    ]
    store = SchemaStore(f"file:{tmp_path}", topic)
    chains, none, value, moment = reasons_of(topic, store, letters)
    assert (chains or "").startswith("malformed source-chain")
    assert none is None
    assert value == "malformed value: not a JSON object"
    assert moment == "timestamp: the record timestamp is null"
    assert reasons_of(topic, store, []) == []
