"""The supervisor of child processes: ready, watched, ended in order, never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from core.errors import ConfigError
from dashboard import services
from dashboard.cli.clusters import duration_s
from dashboard.cli.demo import demo
from dashboard.cli.output import UsageFaultError
from dashboard.cli.sandbox_config import sections_of, write_sandbox_config
from dashboard.cli.supervisor import (
    Child,
    ChildEndedError,
    Restarted,
    Supervisor,
    answers,
    free_port,
    last_line,
    shutting_down,
)

DEADLINE_S = 20.0
STAY = "import threading; print('here', flush=True); threading.Event().wait()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {STAY}"
WITH_PARENT = f"from dashboard.cli.supervisor import end_with_parent; end_with_parent(); {STAY}"


def start(supervisor: Supervisor, script: str, name: str = "child") -> Child:
    child = supervisor.start(name, [sys.executable, "-c", script])
    if "print" in script:
        supervisor.wait_until(
            lambda: last_line(child.log) == "here", f"The {name}", DEADLINE_S, [child]
        )
    return child


def test_children_end_when_the_supervisor_does(tmp_path) -> None:
    with Supervisor(tmp_path) as supervisor:
        children = [start(supervisor, STAY, f"child-{number}") for number in range(2)]
        assert not any(child.has_ended for child in children)
    assert all(child.has_ended for child in children)


def test_a_child_that_does_not_want_to_end_is_killed(tmp_path, capsys) -> None:
    with Supervisor(tmp_path, grace_s=0.2) as supervisor:
        child = start(supervisor, STUBBORN)
    assert child.process.returncode == -signal.SIGKILL
    assert "it is killed" in capsys.readouterr().err


def test_what_others_read_ends_after_them_and_a_long_end_says_so(tmp_path, capsys) -> None:
    slow = (
        "import os, signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep(1.5)\n"
        "    os.kill(int(sys.argv[1]), 0)  # fails where it is gone\n"
        "    os._exit(0)\n"
        f"signal.signal(signal.SIGTERM, end)\n{STAY}"
    )
    with Supervisor(tmp_path) as supervisor:
        read = supervisor.start("server", [sys.executable, "-c", STAY], is_read=True)
        reader = supervisor.start("reader", [sys.executable, "-c", slow, str(read.process.pid)])
        supervisor.wait_until(
            lambda: last_line(reader.log) == "here", "The reader", DEADLINE_S, [read, reader]
        )
    assert reader.process.returncode == 0, reader.log.read_text()
    assert read.has_ended
    assert capsys.readouterr().err == "Stopping…\n"


def test_children_that_do_not_end_share_the_time_that_they_have(tmp_path) -> None:
    with Supervisor(tmp_path, grace_s=1.0) as supervisor:
        for number in range(3):
            start(supervisor, STUBBORN, f"child-{number}")
        began = time.monotonic()
    assert time.monotonic() - began < 2.5


def test_a_crash_is_told_with_its_last_words_and_its_log(tmp_path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = start(supervisor, "import sys; sys.exit('out of luck')")
        with pytest.raises(ChildEndedError, match=r"exit code 1\): out of luck") as caught:
            supervisor.watch([child])
    assert str(child.log) in caught.value.hint


def test_a_restarted_child_that_was_killed_is_started_again_and_the_rest_goes_on(tmp_path) -> None:
    with Supervisor(tmp_path) as supervisor:
        needed, restarted = start(supervisor, STAY, "pages"), start(supervisor, STAY, "jobs")
        first = restarted.process
        first.kill()
        first.wait(DEADLINE_S)
        watching = threading.Thread(target=supervisor.watch, args=([needed], [restarted]))
        watching.start()
        event = threading.Event()
        for _ in range(int(DEADLINE_S / 0.05)):
            if restarted.log.read_text().count("here") == 2:
                break
            event.wait(0.05)
        supervisor.stop.set()
        watching.join(DEADLINE_S)
        assert restarted.log.read_text().count("here") == 2
        assert restarted.process is not first
        assert not restarted.has_ended
        assert not needed.has_ended
    assert restarted.has_ended


def test_a_restarted_child_that_never_stays_is_started_less_often_each_time(
    tmp_path, capsys
) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = start(supervisor, "import sys; sys.exit(3)")
        restarted, waits, now = Restarted(child, started_at=0.0), [], 0.0
        for _ in range(8):
            child.process.wait(DEADLINE_S)
            restarted.look(now)
            assert restarted.due_at is not None
            waits.append(restarted.due_at - now)
            now = restarted.due_at
            restarted.look(now)
            assert restarted.due_at is None
        child.process.wait(DEADLINE_S)
        restarted.look(now + 3600)
        assert restarted.due_at == now + 3601
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert "(exit code 3)" in capsys.readouterr().err


def test_waiting_ends_with_a_sentence_when_it_takes_too_long(tmp_path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = start(supervisor, STAY)
        with pytest.raises(ChildEndedError, match="The page was not ready after"):
            supervisor.wait_until(lambda: False, "The page", 0.3, [child])


def test_waiting_ends_when_the_command_is_told_to_end(tmp_path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.stop.set()
        with pytest.raises(KeyboardInterrupt):
            supervisor.wait_until(lambda: False, "The page", DEADLINE_S, [])


def test_signals_set_the_event_and_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with shutting_down(threading.Event()) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(DEADLINE_S)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_child_ends_with_a_parent_that_was_killed(tmp_path) -> None:
    script = (
        "import sys, threading\nfrom pathlib import Path\n"
        "from dashboard.cli.supervisor import Supervisor\n"
        f"one = Supervisor(Path({str(tmp_path)!r}))\n"
        f"child = one.start('child', [sys.executable, '-c', {WITH_PARENT!r}])\n"
        "print(child.process.pid, flush=True)\nthreading.Event().wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    wait_for_words(tmp_path / "child.log")
    parent.kill()
    parent.wait(DEADLINE_S)
    parent.stdout.close()
    gone, alive = psutil.wait_procs([child], timeout=DEADLINE_S)
    assert not alive
    assert gone


def wait_for_words(log: Path) -> None:
    event = threading.Event()
    for _ in range(int(DEADLINE_S / 0.05)):
        if last_line(log) == "here":
            return
        event.wait(0.05)
    pytest.fail(f"nothing in {log}")


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < free_port(port) <= port + 100


def test_no_port_at_all_is_an_error() -> None:
    with pytest.raises(ConfigError, match="No port from 65536"):
        free_port(65_536)


def test_nobody_answers_on_a_closed_port() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert not answers(f"http://127.0.0.1:{bound.getsockname()[1]}/")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("5min", 300), ("2h", 7200), ("500ms", 0.5), ("15", 15), ("1.5 m", 90), ("0", 0)],
)
def test_durations_are_read(text, seconds) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-1s", "1s2"])
def test_what_is_no_duration_is_bad_usage(text) -> None:
    with pytest.raises(UsageFaultError):
        duration_s(text)


def test_a_demo_does_not_overwrite_a_configuration_that_it_did_not_write(tmp_path) -> None:
    file = tmp_path / "trimtab.toml"
    file.write_text('[[clusters]]\nname = "real"\n')
    with pytest.raises(ConfigError, match="not the demo's own"):
        demo(brokers=1, bundles=1, seed=1, browser=False, state_dir=tmp_path)
    assert "real" in file.read_text()


@pytest.mark.parametrize("minute_s", [60.0, 2.5])
def test_a_sandbox_in_compressed_time_says_so_in_its_configuration(tmp_path, minute_s) -> None:
    file = tmp_path / "trimtab.toml"
    section = '[[clusters]]\nname = "a"\nadmin_urls = ["http://b:8080"]\n'
    write_sandbox_config(file, [section], tmp_path, minute_s)
    loaded = services.load_config(file, ())
    assert loaded.history.minute_s == minute_s
    assert loaded.collect_every_s == 10
    assert sections_of(file) == section


def test_paths_in_a_configuration_are_taken_from_its_own_folder(tmp_path) -> None:
    file = tmp_path / "trimtab.toml"
    file.write_text(
        'state_dir = "state"\n[[clusters]]\nname = "a"\nadmin_urls = ["http://b:8080"]\n'
        '[clusters.auth]\ntoken_file = "secret/token"\n'
    )
    loaded = services.load_config(services.config_path(file), ())
    assert loaded.state_dir == tmp_path / "state"
    assert loaded.clusters[0].auth.token_file == tmp_path / "secret" / "token"
