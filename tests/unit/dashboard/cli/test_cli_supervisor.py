"""The supervisor of child processes: ready, watched, ended in order, never left behind."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from core.errors import ConfigError
from dashboard import services
from dashboard.cli import supervisor as supervisor_module
from dashboard.cli.clusters import duration_s
from dashboard.cli.demo import demo
from dashboard.cli.output import UsageFaultError
from dashboard.cli.sandbox_config import sections_of, write_sandbox_config
from dashboard.cli.supervisor import (
    Child,
    ChildEndedError,
    Supervisor,
    answers,
    free_port,
    last_line,
    reachable,
    shutting_down,
)
from dashboard.services.processes import ProcessState, Supervision

DEADLINE_S = 20.0
STAY = "import threading; print('here', flush=True); threading.Event().wait()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {STAY}"
WITH_PARENT = f"from dashboard.cli.supervisor import end_with_parent; end_with_parent(); {STAY}"


def start(
    supervisor: Supervisor, script: str, name: str = "child", *, is_restarted: bool = False
) -> Child:
    child = supervisor.start(name, [sys.executable, "-c", script], is_restarted=is_restarted)
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
    assert "and is killed" in capsys.readouterr().err


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
        needed = start(supervisor, STAY, "sandbox")
        restarted = start(supervisor, STAY, "jobs", is_restarted=True)
        first = restarted.process
        first.kill()
        first.wait(DEADLINE_S)
        watching = threading.Thread(target=supervisor.watch, args=([needed],))
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
        child = start(supervisor, "import sys; sys.exit(3)", is_restarted=True)
        waits, now = [], time.monotonic()
        for _ in range(8):
            child.process.wait(DEADLINE_S)
            child.look(now)
            assert child.due_s is not None
            waits.append(round(child.due_s - now, 3))
            now = child.due_s
            child.look(now)
            assert child.due_s is None
        child.process.wait(DEADLINE_S)
        child.look(now + 3600)
        assert child.due_s == now + 3601
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert child.restarts == 8
    assert "(exit code 3). Restart in 1 s" in capsys.readouterr().err


def look_until(supervisor: Supervisor, is_true: Callable[[], object]) -> None:
    """Look as :meth:`Supervisor.watch` does, until something is so."""
    pause, until = threading.Event(), time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < until
        supervisor.look()
        pause.wait(0.02)


def supervision(supervisor: Supervisor) -> dict[str, ProcessState]:
    file = supervisor.log_dir / "supervisor.json"
    found = msgspec.json.decode(file.read_bytes(), type=Supervision)
    return {one.name: one for one in found.processes}


def test_state_of_each_restarted_child_is_written_for_the_pages(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_WAIT_S", 0.3)
    with Supervisor(tmp_path / "logs") as supervisor:
        start(supervisor, STAY, "sandbox")
        child = start(supervisor, WITH_PARENT, "worker", is_restarted=True)
        supervisor.look()
        assert set(supervision(supervisor)) == {"worker"}
        look_until(supervisor, lambda: supervision(supervisor)["worker"].is_up)
        child.process.kill()
        look_until(supervisor, lambda: not supervision(supervisor)["worker"].is_up)
        down = supervision(supervisor)["worker"]
        assert (down.last_end, down.restarts, down.log) == ("SIGKILL", 0, "logs/worker.log")
        assert down.next_start_at is not None
        assert down.next_start_at > down.since
        look_until(supervisor, lambda: supervision(supervisor)["worker"].is_up)
        again = supervision(supervisor)["worker"]
        assert (again.restarts, again.pid) == (1, child.process.pid)
        assert again.since > down.since
    assert not (tmp_path / "logs" / "supervisor.json").exists()


@pytest.mark.parametrize("script", [WITH_PARENT, STAY], ids=["frozen", "never ready"])
def test_a_child_without_a_sign_of_life_is_killed_and_started_again(
    tmp_path, monkeypatch, capsys, script
) -> None:
    for name in ("_FIRST_WAIT_S", "_HUNG_S"):
        monkeypatch.setattr(supervisor_module, name, 0.3)
    is_frozen = script == WITH_PARENT
    monkeypatch.setattr(supervisor_module, "READY_S", DEADLINE_S if is_frozen else 0.3)
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.start("worker", [sys.executable, "-c", script], is_restarted=True)
        first = child.process
        if is_frozen:
            look_until(supervisor, lambda: child.is_up(time.monotonic()))
            first.send_signal(signal.SIGSTOP)
        look_until(supervisor, lambda: child.restarts)
        assert first.returncode == -signal.SIGKILL
        assert child.last_end == "no heartbeat for 0 s"
    err = capsys.readouterr().err
    assert "The worker sent no heartbeat for 0 s and is killed." in err


def test_a_supervisor_that_was_paused_kills_nobody(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(supervisor_module, "_HUNG_S", 1.0)
    with Supervisor(tmp_path) as supervisor:
        child = start(supervisor, WITH_PARENT, "worker", is_restarted=True)
        look_until(supervisor, lambda: child.is_up(time.monotonic()))
        moment = time.monotonic() + 3600
        monkeypatch.setattr(supervisor_module.time, "monotonic", lambda: moment)
        supervisor.look()
        assert not child.has_ended


def test_log_is_appended_and_bounded(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(supervisor_module, "_LOG_BYTES", 1_000)
    (tmp_path / "worker.log").write_text("of yesterday\n")
    words = "import sys\nfor _ in range(300): print('x' * 99, flush=True)\nprint('end of it')"
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.start("worker", [sys.executable, "-c", words])
        child.process.wait(DEADLINE_S)
        assert child.log.read_text().startswith("of yesterday\n--- ")
        assert child.last_words() == "end of it"
        supervisor.look()
        assert child.log.stat().st_size == 0
        assert child.log.with_name("worker.log.1").read_text().endswith("end of it\n")
        child.look(time.monotonic())
        assert child.due_s is not None
        child.look(child.due_s)
        child.process.wait(DEADLINE_S)
        supervisor.look()
        names = sorted(path.name for path in tmp_path.glob("worker*"))
        assert names == ["worker.log", "worker.log.1"]
        assert child.log.with_name("worker.log.1").read_text().startswith("--- ")


def test_last_words_are_those_of_the_latest_process(tmp_path) -> None:
    (tmp_path / "worker.log").write_text("out of luck\n")
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.start("worker", [sys.executable, "-c", "pass"])
        child.process.wait(DEADLINE_S)
        assert child.last_words() == ""


def test_first_line_of_a_process_is_json_where_logs_are(tmp_path) -> None:
    with Supervisor(tmp_path, log_format="json") as supervisor:
        child = supervisor.start("worker", [sys.executable, "-c", "pass"])
        assert json.loads(child.log.read_text())["message"] == "started"


def test_a_restarted_child_that_fails_at_its_first_start_ends_the_start(tmp_path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = start(
            supervisor, "import sys; sys.exit('no such table')", "pages", is_restarted=True
        )
        with pytest.raises(ChildEndedError, match=r"The pages .*exit code 1\): no such table"):
            supervisor.wait_until(lambda: False, "The dashboard", DEADLINE_S, [child])


def test_a_restarted_child_that_is_killed_during_the_start_comes_back(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_WAIT_S", 0.1)
    with Supervisor(tmp_path) as supervisor:
        child = start(supervisor, STAY, "pages", is_restarted=True)
        child.process.kill()
        supervisor.wait_until(
            lambda: child.log.read_text().count("here") == 2, "The dashboard", DEADLINE_S, [child]
        )


def test_a_child_is_started_again_without_its_logs(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_WAIT_S", 0.1)
    with Supervisor(tmp_path / "logs") as supervisor:
        child = start(supervisor, STAY, "worker", is_restarted=True)
        shutil.rmtree(tmp_path / "logs")
        child.process.kill()
        look_until(supervisor, lambda: child.restarts and last_line(child.log) == "here")
        shutil.rmtree(tmp_path / "logs")
        (tmp_path / "logs").write_text("a file in their place")
        child.process.kill()
        look_until(supervisor, lambda: child.restarts == 2)
        assert not child.has_ended
        (tmp_path / "logs").unlink()


class Broken(io.RawIOBase):
    """A terminal, or a pipe, that is gone."""

    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise BrokenPipeError


def test_a_folder_of_logs_that_was_removed_is_made_again(tmp_path, monkeypatch, capsys) -> None:
    logs = tmp_path / "logs"
    monkeypatch.setattr(supervisor_module, "HEARTBEAT_S", 0.0)
    with Supervisor(logs) as supervisor:
        child = start(supervisor, STAY, is_restarted=True)
        shutil.rmtree(logs)
        supervisor.look()
        supervisor.look()
        state = msgspec.json.decode((logs / "supervisor.json").read_bytes(), type=Supervision)
        assert [one.pid for one in state.processes] == [child.process.pid]
    assert f"The log folder {logs} was removed" in (said := capsys.readouterr().err)
    assert (said.count("was removed"), "cannot be written" in said) == (1, False)


def test_a_terminal_that_is_gone_does_not_end_the_children(tmp_path, monkeypatch) -> None:
    gone = io.TextIOWrapper(Broken(), write_through=True)
    monkeypatch.setattr(sys, "stderr", gone)
    with Supervisor(tmp_path, grace_s=0.2) as supervisor:
        child = start(supervisor, STUBBORN, is_restarted=True)
        other = start(supervisor, "pass", "other", is_restarted=True)
        other.process.wait(DEADLINE_S)
        supervisor.look()
        assert not child.has_ended


def test_two_supervisors_of_one_folder_have_a_log_each(tmp_path, capsys) -> None:
    with Supervisor(tmp_path / "logs") as first, Supervisor(tmp_path / "logs") as second:
        start(first, "print('here')", "worker").process.wait(DEADLINE_S)
        child = second.start("worker", [sys.executable, "-c", "print('there')"])
        child.process.wait(DEADLINE_S)
        assert child.log == tmp_path / "logs-2" / "worker.log"
        assert "there" not in (tmp_path / "logs" / "worker.log").read_text()
        assert f"on standby. Logs: {tmp_path / 'logs-2'}" in capsys.readouterr().err
        with pytest.raises(ConfigError, match="Another command runs in"):
            Supervisor(tmp_path / "logs").claim(is_alone=True)
    with Supervisor(tmp_path / "logs") as third:
        third.claim(is_alone=True)
        assert third.log_dir == tmp_path / "logs"


def test_a_demo_does_not_take_the_folder_of_one_that_runs(tmp_path) -> None:
    file = tmp_path / "trimtab.toml"
    write_sandbox_config(file, [], tmp_path)
    with Supervisor(tmp_path.resolve() / "logs") as running:
        running.claim()
        with pytest.raises(ConfigError, match="Another command runs in"):
            demo(brokers=1, bundles=1, seed=1, browser=False, state_dir=tmp_path)
    assert file.exists()


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


def test_a_taken_port_is_passed_over_and_named(capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < (found := free_port(port)) <= port + 100
    assert capsys.readouterr().err == f"Port {port} is in use; the pages use port {found}.\n"
    assert free_port(found) == found
    assert not capsys.readouterr().err


def test_no_port_at_all_is_an_error() -> None:
    with pytest.raises(ConfigError, match="No port from 65536"):
        free_port(65_536)


def test_nobody_answers_on_a_closed_port() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert not answers("127.0.0.1", bound.getsockname()[1], "/")


@pytest.mark.parametrize(
    ("address", "asked"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.1.2.3", "10.1.2.3"), ("::1", "[::1]")],
)
def test_pages_are_asked_on_the_address_that_they_listen_on(address, asked) -> None:
    assert reachable(address) == asked


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
    with pytest.raises(ConfigError, match="not written by the demo"):
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
