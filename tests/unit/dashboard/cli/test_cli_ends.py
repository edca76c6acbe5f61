"""Commands whose output goes nowhere or to a full disk, and the modes of what they write."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from journal_entries import ONE_OF_EACH, record_of
from signed_requests import as_requested

from connectors.config.access import AccessConfig
from connectors.journal.journal import SqlJournal

TRIMTAB = f"{sys.executable} -m dashboard.cli"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a journal of many entries."""
    folder = tmp_path_factory.mktemp("ends")
    key = folder / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    (folder / "trimtab.toml").write_text(
        f'state_dir = "{folder / "state"}"\n[access]\nkey_file = "{key}"\n'
        '[[clusters]]\nname = "prod"\nzookeeper = "127.0.0.1:1"\n'
    )
    journal = SqlJournal(f"sqlite:///{folder / 'state' / 'journal.db'}")
    access = AccessConfig(key_file=key)
    for second in range(20):
        for event in ONE_OF_EACH[:3]:
            journal.append(as_requested(record_of(event, second=second), access))
    journal.close()
    return folder


def shell(home: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which ``trimtab`` is ours."""
    line = command.replace("trimtab ", f"{TRIMTAB} ")
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; umask 000; {line}"],
        env={**os.environ, "TRIMTAB_CONFIG": str(home / "trimtab.toml"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


FULL = "trimtab: Standard output cannot be written: No space left on device."
CLOSED = "trimtab: Standard output cannot be written: it is closed."


@pytest.mark.parametrize("words", ["audit", "audit --json", "--help", "runs --verify"])
@pytest.mark.parametrize(("target", "said"), [("> /dev/full", FULL), (">&-", CLOSED)])
def test_output_that_cannot_be_written_is_one_sentence(home, words, target, said) -> None:
    done = shell(home, f"trimtab {words} {target}")
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1, done
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(said), done.stderr


def test_an_error_is_said_even_so(home) -> None:
    done = shell(home, "trimtab nonsense --json > /dev/full")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("trimtab: trimtab has no command 'nonsense'.")
    assert done.stderr.splitlines()[1].startswith(FULL)


@pytest.mark.parametrize("words", ["audit --json", "--help", "runs --verify"])
@pytest.mark.parametrize("reader", ["head -c 1", "true"])
def test_a_reader_that_has_seen_enough_ends_a_command_in_silence(home, words, reader) -> None:
    done = shell(home, f"trimtab {words} | {reader}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("target", ["2>&-", "2> /dev/full"])
def test_the_exit_code_stays_where_errors_cannot_be_written(home, target) -> None:
    assert shell(home, f"trimtab runs none {target}").returncode == 1
    assert shell(home, f"trimtab runs --nonsense {target}").returncode == 2


def test_no_file_gets_the_number_of_a_closed_stream(home) -> None:
    """What a child or a library prints would be written into it: a database, for example."""
    done = shell(home, "trimtab runs --verify --json <&- 2>&-")
    assert done.returncode == 0
    assert '"is_sound": true' in done.stdout


@pytest.mark.parametrize(
    "words",
    ["runs --export OUT", "audit --export OUT.csv", "backup OUT"],
)
def test_what_is_written_is_private_whatever_the_umask_is(home, tmp_path, words) -> None:
    done = shell(home, f"trimtab {words.replace('OUT', str(tmp_path / 'new'))}")
    assert done.returncode == 0, done.stderr
    made = list(tmp_path.rglob("*"))
    assert made
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_state_of_a_command_is_private_whatever_the_umask_is(home, tmp_path) -> None:
    done = shell(home, f"TRIMTAB_STATE_DIR={tmp_path}/state trimtab runs")
    assert done.returncode == 0, done.stderr
    made = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert len(made) > 1
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("words", ["runs --export OUT", "audit --export OUT.jsonl", "backup OUT"])
def test_a_full_disk_leaves_nothing(home, tmp_path, words) -> None:
    """Files may have 40 KiB here, as on a disk with no more room."""
    out = tmp_path / "out"
    done = shell(home, f"ulimit -f 40; trap '' XFSZ; trimtab {words.replace('OUT', str(out))}")
    assert done.returncode == 1, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert str(out) in done.stderr
    assert list(tmp_path.iterdir()) == []
