"""Commands without a configuration, and command lines that name one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from connectors.config.model import TrimtabConfig
from dashboard.cli.config import config_words
from dashboard.cli.main import run
from dashboard.services import config_option


@pytest.fixture
def nowhere(tmp_path, monkeypatch) -> Path:
    """A folder without a configuration, and an environment that names none."""
    for name in ("TRIMTAB_CONFIG", "TRIMTAB_JOURNAL_URL", "TRIMTAB_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["worker"],
        ["collect"],
        ["capture", "sandbox", "--out", "x"],
        ["apply", "plan.json", "--cluster", "sandbox", "--reason", "x", "--yes"],
        ["undo", "20261121-174455-3fa9c1", "--reason", "x", "--yes"],
        ["set", "sandbox", "loadBalancerEnabled=true"],
        ["runs"],
        ["runs", "--verify"],
    ],
    ids=" ".join,
)
def test_without_a_configuration_it_is_said_how_to_name_one(nowhere, capsys, words) -> None:
    assert run(words) == 1
    said = capsys.readouterr().err
    assert "No configuration" in said
    assert "Pass --config FILE" in said
    assert not any(nowhere.iterdir())


def test_a_configuration_whose_links_lead_in_a_circle_is_named(nowhere, capsys) -> None:
    (nowhere / "circle.toml").symlink_to("circle.toml")
    assert run(["runs", "--config", "circle.toml"]) == 1
    assert f"{nowhere / 'circle.toml'} cannot be read." in capsys.readouterr().err


def test_a_journal_that_the_environment_names_needs_no_configuration(
    nowhere, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("TRIMTAB_STATE_DIR", str(nowhere / "state"))
    assert run(["runs"]) == 0
    assert str(nowhere / "state" / "journal.db") in capsys.readouterr().out


def test_lines_that_pages_offer_name_the_file_unless_it_is_the_default_one(nowhere) -> None:
    for folder, words in (
        (nowhere, ""),
        (nowhere / "else", f" --config {nowhere}/else/trimtab.toml"),
    ):
        folder.mkdir(exist_ok=True)
        (folder / "trimtab.toml").write_text("")
        assert config_option(TrimtabConfig.load(folder / "trimtab.toml", ())) == words
    (nowhere / "trimtab.toml").unlink()
    assert config_option(TrimtabConfig.load(None, ())) == ""


def test_a_file_name_with_a_space_is_quoted(nowhere) -> None:
    file = nowhere / "my folder" / "trimtab.toml"
    file.parent.mkdir()
    file.write_text("")
    words = shlex.split(config_option(TrimtabConfig.load(file, ())))
    assert words == ["--config", str(file)]


def test_a_command_line_names_the_configuration_that_was_named(nowhere) -> None:
    assert config_words(None) == ""
    words = shlex.split(config_words(Path("my folder/trimtab.toml")))
    assert words == ["--config", "my folder/trimtab.toml"]
