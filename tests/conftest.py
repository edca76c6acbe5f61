"""What all test folders share: modules beside this file, and patience with what runs for real."""

from __future__ import annotations

from pathlib import Path

import pytest

# Real processes, sockets, browsers and timers: a loaded machine can make one of them late. A test
# there that fails is run again, at most twice, and the summary counts it; a wrong answer stays
# wrong.
_REAL = frozenset({"app", "contract", "e2e", "faults", "live", "parity", "spark"})
_REAL_MODULES = frozenset(
    {
        "test_cli_snapshots",
        "test_cli_supervisor",
        "test_cli_told_to_end",
        "test_later",
        "test_pegasus_client",
        "test_pegasus_http",
        "test_snapshot_store",
    }
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(root).parts[0]
        if folder in _REAL or item.path.stem in _REAL_MODULES:
            item.add_marker(pytest.mark.flaky(reruns=2))
