"""What all test folders share: modules beside this file, and patience with what runs for real."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from folder_ends import end_what_others_left
from xdist.scheduler.loadfile import LoadFileScheduling

# Real processes, sockets, browsers and timers: a loaded machine can make one of them late. A test
# there that fails is run again, at most twice, and the summary counts it; a wrong answer stays
# wrong. ``--reruns 0`` shows the first failure.
_REAL = frozenset({"app", "contract", "e2e", "faults", "live", "parity", "spark"})
_REAL_MODULES = frozenset(
    {
        "test_cli_snapshots",
        "test_cli_supervisor",
        "test_cli_told_to_end",
        "test_background",
        "test_pegasus_client",
        "test_pegasus_http",
        "test_snapshot_store",
    }
)


# One product, one real cluster, one Spark session for all that use it: two of them starve each
# other, and the long ones go first, so that short files even out the end.
_TOGETHER = ("tests/e2e/", "tests/live/", "tests/spark/")
_ROOT = Path(__file__).parent


class _Scheduling(LoadFileScheduling):
    """Files are dealt out as they are, but for folders whose files share what is expensive."""

    def _split_scope(self, nodeid: str) -> str:
        shared = next((folder for folder in _TOGETHER if nodeid.startswith(folder)), None)
        return shared or str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    return _Scheduling(config, log)  # type: ignore[arg-type]


def _turn(item: pytest.Item) -> int:
    return next((i for i, name in enumerate(_TOGETHER) if item.nodeid.startswith(name)), 9)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    is_patient = config.getoption("reruns", None) is None
    for item in items:
        folder = item.path.relative_to(_ROOT).parts[0]
        if is_patient and (folder in _REAL or item.path.stem in _REAL_MODULES):
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_collection_finish() -> None:
    # thousands of collected tests and all modules live to the end: no collection of garbage
    # has to look at them again
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests put on record of faults: ``record_property("fault NAME", figures)``."""
    reports = [one for group in terminalreporter.stats.values() for one in group]
    called = [one for one in reports if getattr(one, "when", "") == "call"]
    rows: dict[str, Counter[str]] = {}
    for name, figures in [pair for one in called for pair in dict(one.user_properties).items()]:
        if name.startswith("fault "):
            rows.setdefault(name.removeprefix("fault "), Counter()).update(figures)
    if not rows:
        return
    columns = tuple(next(iter(rows.values())))
    width = max(map(len, (*rows, "fault")))
    terminalreporter.section("faults")
    terminalreporter.line("  ".join([f"{'fault':{width}}", *(f"{one:>10}" for one in columns)]))
    for name, row in rows.items():
        cells = [f"{row[one]:>10,}" for one in columns]
        terminalreporter.line("  ".join([f"{name:{width}}", *cells]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    end_what_others_left(item)


@pytest.fixture(autouse=True, scope="session")
def _own_installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key of the tests and the width of their tables apart from whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("installation")))
        yield


@pytest.fixture(autouse=True)
def _main_module() -> Iterator[None]:
    """A page under test takes the main module's place; processes started later would run it."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main
