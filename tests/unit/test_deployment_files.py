"""The files for deployment name commands, options and settings that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from dashboard.cli.main import app

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
COMMAND = typer.main.get_command(app)


def check(words: list[str]) -> None:
    """Check that a command line is one of ours, without running it."""
    name, *rest = words
    context = typer.Context(COMMAND)
    found = COMMAND.get_command(context, name)
    assert found is not None, words
    found.make_context(name, list(rest))


def test_every_unit_starts_a_command() -> None:
    units = sorted(DEPLOY.glob("systemd/*.service"))
    assert len(units) == 4
    for unit in units:
        line = re.search(r"^ExecStart=\S*/trimtab (.+)$", unit.read_text(), re.MULTILINE)
        assert line
        check(shlex.split(line[1]))


def test_every_service_of_the_compose_file_starts_a_command() -> None:
    found = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    ours = {name: one for name, one in found["services"].items() if one.get("image") == "trimtab"}
    assert set(ours) == {"pages", "collector", "worker", "jobs"}
    for one in ours.values():
        check(one["command"])
        assert one["read_only"]
        assert one["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("word", ["requirements.lock", "core", "connectors", "dashboard"])
def test_the_image_is_built_of_what_there_is(word) -> None:
    text = (DEPLOY / "container" / "Dockerfile").read_text()
    assert re.search(rf"^COPY .*\b{re.escape(word)}\b", text, re.MULTILINE)
    assert (DEPLOY.parents[1] / word).exists()
    assert "--require-hashes" in text
    assert re.search(r"^USER trimtab$", text, re.MULTILINE)
