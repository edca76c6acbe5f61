"""The command line itself: lists of commands, help, examples, suggestions and completion."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import typer
from places import ROOT

from dashboard.cli import operations, progress, signatures, source
from dashboard.cli.commands import COMMANDS, OTHER_NAMES, CommandEntry, Group
from dashboard.cli.main import app, run
from dashboard.cli.output import note, print_line, table
from dashboard.cli.progress import STATUS

WIDTH = 80
MAX_SUMMARY = 60
COMPLETES = "completion"  # its example is a line for the shell


def entries(sections: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, CommandEntry]]:
    for section in sections.values():
        for name, entry in section.items():
            if isinstance(entry, Group):
                yield from entries(entry.sections, (*words, name))
            else:
                yield " ".join((*words, name)), entry


EVERY = dict(entries(COMMANDS))
GROUPS = [
    name for section in COMMANDS.values() for name, one in section.items() if type(one) is Group
]


def loaded(words: str) -> Any:
    command = typer.main.get_command(app)
    for name in words.split():
        command = command.commands[name]
    return command


@pytest.mark.parametrize("words", EVERY)
def test_a_command_has_a_short_summary_that_is_its_own(words: str) -> None:
    command, entry = loaded(words), EVERY[words]
    assert command.help.partition("\n\n")[0] == entry.summary
    assert len(entry.summary) <= MAX_SUMMARY
    assert entry.summary.endswith(".")


@pytest.mark.parametrize("words", [one for one in EVERY if one != COMPLETES])
def test_the_example_of_a_command_parses_and_is_in_its_help(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setattr(
        source,
        "snapshot_directories",
        lambda sources, _config, _kind: contextlib.nullcontext([Path(one) for one in sources]),
    )
    example = EVERY[words].example
    first, *arguments = shlex.split(example)
    assert first == "trimtab"
    count = len(words.split())
    assert " ".join(arguments[:count]) == words
    command = loaded(words)
    context = command.make_context(words, arguments[count:])  # fails where it does not parse
    assert not context.args
    assert run([*words.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example:\n    {example}" in shown
    assert re.findall(r"<\w+[\w\[\] ]*>", shown) == []  # Typer's names of types


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_a_group_alone_lists_its_commands(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(group.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    known = COMMANDS
    if group:
        found = {name: one for section in COMMANDS.values() for name, one in section.items()}[group]
        assert isinstance(found, Group)
        known = found.sections
    for heading, section in known.items():
        assert f"\n{heading}:\n" in shown.err
        for name, entry in section.items():
            assert f"  {name} " in shown.err
            assert f" {entry.summary}\n" in shown.err
    assert max(map(len, shown.err.splitlines())) <= WIDTH


def test_the_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "Exit codes:\n    0  done;" in shown
    assert "\n    3  answered, but incomplete" in shown


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("helth", "Did you mean health or pegasus health?"),
        ("pegasus drian", "Did you mean drain?"),
        ("drain", "pegasus drain"),
        ("diagnose-x", "Did you mean diagnose?"),
        ("rebalance", "Did you mean optimize or shed or pegasus rebalance?"),
        ("broker", "Did you mean explain or health?"),
        ("shed snap --strateg x", "--strategy"),
        ("completion bsh", "Did you mean bash"),
    ],
)
def test_a_mistyped_word_is_answered_with_near_ones(
    line: str, offered: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    assert offered in capsys.readouterr().err


def test_a_word_that_is_near_no_command_gets_no_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["zookeeper"]) == 2
    shown = capsys.readouterr().err
    assert "Did you mean" not in shown
    assert "Run `trimtab --help` for the list." in shown


def test_other_names_are_no_commands_and_lead_to_commands() -> None:
    known = {*EVERY, *GROUPS}
    assert not known & set(OTHER_NAMES)
    assert {words for commands in OTHER_NAMES.values() for words in commands} <= known


HELPS = """
import contextlib, io, json, sys
from dashboard.cli.main import run
from dashboard.cli.signatures import only_signatures
shown = {}
for words in json.load(sys.stdin):
    with only_signatures(), contextlib.redirect_stdout(io.StringIO()) as text:
        run([*words.split(), "--help"])
    shown[words] = text.getvalue()
loaded = sorted(set(sys.modules) & {"pydantic", "pyarrow", "numpy", "sqlalchemy"})
print(json.dumps({"shown": shown, "loaded": loaded}))
"""


def test_the_signatures_alone_have_the_same_help_and_load_nothing_heavy() -> None:
    """A command that falls back to its whole module makes its help slow, and the list not empty."""
    done = subprocess.run(
        [sys.executable, "-c", HELPS],
        input=json.dumps(list(EVERY)),
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(WIDTH)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    for words, text in found["shown"].items():
        with contextlib.redirect_stdout(io.StringIO()) as whole:
            run([*words.split(), "--help"])
        assert text == whole.getvalue(), words
    assert found["loaded"] == []


def test_a_command_that_runs_after_all_is_loaded_as_a_whole() -> None:
    """``--help`` may be the value of an option."""
    with signatures.only_signatures(), pytest.raises(signatures.RunNeededError):
        run(["quota", "--limit", "100", "--usage", "1,2"])


CONFIG = """
state_dir = "state"
[[clusters]]
name = "east"
zookeeper = "127.0.0.1:1"
[[clusters]]
name = "west"
zookeeper = "127.0.0.1:1"
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trimtab.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIMTAB_CONFIG", raising=False)
    return tmp_path


def completions(line: str) -> list[str]:
    """What Tab offers at the end of a line, by the shell's own way."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "dashboard.cli"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_TRIMTAB_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout.split()


@pytest.mark.usefixtures("configured")
def test_tab_completes_commands_options_and_clusters() -> None:
    assert completions("trimtab heal") == ["health"]
    assert completions("trimtab pegasus rol") == ["rolling-update"]
    assert completions("trimtab shed --strategy-") == ["--strategy-only"]
    assert completions("trimtab health w") == ["west"]
    assert completions("trimtab runs --cluster ") == ["east", "west"]


def test_tab_completes_names_of_the_newest_snapshot(configured: Path) -> None:
    from fleet_builder import make_snapshot  # noqa: PLC0415  # only here

    from core.snapshot.store import save_snapshot  # noqa: PLC0415  # the same

    snapshot = make_snapshot(brokers=3, bundles=12)
    save_snapshot(snapshot, configured / "state/snapshots/west/20260101T000000000Z-1")
    save_snapshot(snapshot, configured / "snap")
    bundles = sorted(snapshot.bundles["bundle"].to_pylist())
    brokers = sorted(snapshot.brokers["broker"].to_pylist())
    assert completions("trimtab explain west --bundle ") == bundles
    assert completions("trimtab explain snap --broker ") == brokers
    assert completions("trimtab shed sn") == ["snap"]


@pytest.mark.usefixtures("configured")
def test_what_cannot_be_read_has_no_names() -> None:
    Path("trimtab.toml").write_text("no toml = = =")
    assert completions("trimtab health ") == []
    assert completions("trimtab runs ") == []


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_get_the_same_names(shell: str) -> None:
    """Asked in the way of the scripts that ``trimtab completion`` prints for them."""
    done = subprocess.run(
        [sys.executable, "-m", "dashboard.cli"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_TRIMTAB_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": "trimtab health w",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "west" in done.stdout
    assert "east" not in done.stdout
    assert done.stderr == ""


def test_every_help_shows_an_example_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (*GROUPS, "runs", "pegasus drain"):
        assert run([*words.split(), "--help"]) == 0
        shown = capsys.readouterr().out
        assert "Example:\n    trimtab " in shown
        assert ("Exit codes: 0 done" in shown) == (words not in GROUPS)


def test_ctrl_c_is_one_sentence_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(operations, "kind_of", stop)
    assert run(["health", "anything"]) == 130
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "trimtab: Stopped.\n")


def test_a_reader_that_has_seen_enough_ends_a_command_well() -> None:
    """As ``trimtab --help | head -1`` does, whose pipe is closed before the rest is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "dashboard.cli", "quota", "--limit", "1", "--usage", "1"],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_sentence_is_folded_and_the_command_in_it_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_line(
        "No user can sign in, none is in it: add one with `trimtab users add NAME --group G`."
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "No user can sign in, none is in it: add",
        "one with",
        "`trimtab users add NAME --group G`.",
    ]


def test_the_id_of_a_run_or_a_job_stays_whole_in_a_narrow_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ids = ("20261127T220644003-c8c7df", "20261127-213045-134949")
    name = "a-broker-with-a-long-name.example.org:8080"
    table(("id", "broker", "other"), [(one, name, name) for one in ids])
    shown = capsys.readouterr().out
    assert all(one in shown for one in ids)
    assert name not in shown
    assert max(map(len, shown.splitlines())) <= 60


def test_the_line_that_says_how_far_a_command_is_comes_back_after_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(progress, "_AFTER_S", 0.01)
    monkeypatch.setattr(progress, "_EVERY_S", 0.01)

    def drawn(times: int) -> None:
        end = monotonic() + 20
        while written.getvalue().count("trimtab apply, ") < times:
            assert monotonic() < end, written.getvalue()

    STATUS.start("trimtab apply")
    try:
        drawn(1)
        note("1/2 done")
        before = written.getvalue().count("trimtab apply, ")
        drawn(before + 1)
        print_line("It is done.")
        after = written.getvalue()
        assert after.endswith("\r\x1b[K")
        assert not STATUS._is_drawn
    finally:
        STATUS.stop()
