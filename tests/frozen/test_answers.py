"""Answers are the frozen ones; :mod:`answers` says how to see a difference."""

from __future__ import annotations

import json

import pytest
from answers import FROZEN, digests


@pytest.mark.slow
def test_answers_are_the_frozen_ones() -> None:
    frozen, now = json.loads(FROZEN.read_text()), digests()
    assert {name for name in frozen if now.get(name) != frozen[name]} == set()
    assert set(now) == set(frozen)
