"""The process that only starts and watches others does not load what the others compute with."""

from __future__ import annotations

import subprocess
import sys

from dashboard.cli.supervisor import Supervisor

HEAVY = {"numpy", "pandas", "pyarrow", "pydantic", "sqlalchemy", "requests", "asyncio", "scipy"}

SCRIPT = """
import sys

from dashboard.cli.supervisor import Supervisor
from dashboard.cli import main, demo, supervisor
from dashboard.cli.pulsar import sandbox
from dashboard.cli.pegasus import sandbox
from dashboard import services
services.child_environment()
print(*{one.partition(".")[0] for one in sys.modules})
"""


def test_the_demo_s_own_process_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    assert HEAVY.isdisjoint(done.stdout.split())


def test_children_get_few_pools_unless_the_environment_says_otherwise(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    show = (
        "import os; print(os.environ['MALLOC_ARENA_MAX'], os.environ['ARROW_DEFAULT_MEMORY_POOL'])"
    )
    with Supervisor(tmp_path / "logs") as all_:
        child = all_.start("show", [sys.executable, "-c", show])
        assert child.process.wait(60) == 0
        assert child.last_words() == "7 system"
