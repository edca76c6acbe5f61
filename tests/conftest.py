"""What all test folders share: modules beside this file, and patience with what runs for real."""

from __future__ import annotations

from pathlib import Path

import pytest

# Real processes, browsers and timers: a loaded machine can make one of them late. A test there that
# fails is run again, at most twice, and the summary counts it; a wrong answer stays wrong.
_REAL = frozenset({"app", "contract", "e2e", "faults", "live"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        if item.path.relative_to(root).parts[0] in _REAL:
            item.add_marker(pytest.mark.flaky(reruns=2))
