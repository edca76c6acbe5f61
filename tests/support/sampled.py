"""How much of a long test runs: a part of it in CI, all of it in ``make test-all``."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings

EVERY: Final = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
"""A test over many kept cases takes every fifth of them; all of them are slow."""


def examples(whole: int) -> int:
    """Return how many examples a property test tries: a quarter in CI's profile, at least five."""
    is_ci = settings.get_current_profile_name() == "ci"
    return min(whole, max(whole // 4, 5)) if is_ci else whole
