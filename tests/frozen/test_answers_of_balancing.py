"""Frozen answers about decisions of the balancer; :mod:`answers` says how to renew them."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import assert_answers
from frozen_cases import PARTS


@pytest.mark.parametrize("name", [*PARTS["balancing"]])
def test_answers_are_the_frozen_ones(name: str, world: Path, tmp_path: Path) -> None:
    assert_answers(name, world, tmp_path.resolve())
