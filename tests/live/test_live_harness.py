"""The harness itself: quick enough, and nothing of it survives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from java_process import JavaProcess, wait_until
from real_pulsar import RealPulsar

_PARENT = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from java_process import JavaProcess
command = [sys.executable, "-c", "import signal; signal.pause()"]
child = JavaProcess("child", command, Path({logs!r}))
child.start()
print(child.pid, flush=True)
sys.stdin.read()
"""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_every_broker_is_up(modular: RealPulsar) -> None:
    assert set(modular.get_json("/admin/v2/brokers")) == set(modular.brokers)


def test_server_dies_with_the_process_that_started_it_even_killed(tmp_path: Path) -> None:
    program = _PARENT.format(folder=str(Path(__file__).parent), logs=str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        os.kill(parent.pid, signal.SIGKILL)
    wait_until("the child is gone", lambda: not is_alive(child), within_s=10)


def test_server_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    server = JavaProcess("broken", [sys.executable, "-c", "raise SystemExit('no data')"], tmp_path)
    server.start()
    try:
        server.wait_ready(lambda: False, within_s=10)
    except Exception as error:  # noqa: BLE001 - whichever it is, its text is what is tested
        message = str(error)
    assert "code 1" in message
    assert "no data" in message
