"""Errors say what, which and how to mend it, and whether a retry helps."""

from __future__ import annotations

import pickle

import pytest

import headrace as hr

pytestmark = pytest.mark.fast


def test_an_error_shows_message_then_detail_then_hint() -> None:
    error = hr.HeadraceError("Topic 'a': gone.", detail="offsets 3 to 9", hint="Accept the gap.")
    assert str(error) == "Topic 'a': gone.\noffsets 3 to 9\nAccept the gap."


def test_an_error_without_detail_and_hint_is_its_message() -> None:
    assert str(hr.TransientError("Broker: not there.")) == "Broker: not there."


def test_a_description_error_is_terminal_and_a_value_error() -> None:
    assert issubclass(hr.DescriptionError, hr.TerminalError)
    assert issubclass(hr.DescriptionError, ValueError)
    assert not issubclass(hr.TransientError, hr.TerminalError)


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(hr.DescriptionError("m", detail="d", hint="h")))
    assert (error.message, error.detail, error.hint, str(error)) == ("m", "d", "h", "m\nd\nh")
