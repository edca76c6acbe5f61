"""The README's commands, word for word, on the fleet that the demo runs."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from dashboard.cli.main import run

ROOT = Path(__file__).parent.parent.parent
TRIMTAB = ".venv/bin/trimtab"


def shell_lines(heading: str = "") -> list[str]:
    """Return the lines of all shell blocks of the README, or of one section of it."""
    return [line for block in blocks("sh", heading) for line in block.splitlines() if line]


def blocks(language: str, heading: str = "") -> list[str]:
    """Return the code blocks in a language of the README, or of one section of it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [
        block
        for section in re.split(r"^## ", text, flags=re.MULTILINE)
        if section.startswith(heading)
        for block in re.findall(
            rf"^```{language}\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL
        )
    ]


@pytest.fixture(scope="module")
def demo_config(tmp_path_factory) -> Iterator[Path]:
    """The fleet of the demo, and the configuration that points at it."""
    folder = tmp_path_factory.mktemp("readme")
    with Sandbox(SandboxOptions(brokers=12, bundles=600, seed=7)) as sandbox:
        path = folder / "trimtab.toml"
        path.write_text(
            f'state_dir = "{folder}"\n[[clusters]]\nname = "sandbox"\nenvironment = "demo"\n'
            f'zookeeper = "{sandbox.zookeeper}"\nadmin_urls = {json.dumps(sandbox.admin_urls)}\n'
            "read_only = false\n"
        )
        yield path


def test_every_command_of_the_readme_is_called_where_the_set_up_puts_it() -> None:
    lines = shell_lines()
    assert len(lines) > 10
    assert {shlex.split(line, comments=True)[0] for line in lines} == {TRIMTAB, "make"}


@pytest.mark.zookeeper
def test_the_commands_of_the_readme_work_in_their_order_on_the_demo(
    demo_config, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("TRIMTAB_CONFIG", str(demo_config))
    monkeypatch.chdir(tmp_path)
    lines = shell_lines("From the command line")
    assert len(lines) > 5
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        code = run(words)
        told = capsys.readouterr()
        assert (program, code) == (TRIMTAB, 0), f"{line}\n{told.out}{told.err}"
    assert "DONE" in told.out  # the last one lists the run


@pytest.mark.zookeeper
def test_the_read_only_command_needs_only_the_lines_above_it(
    demo_config, tmp_path, monkeypatch, capsys
) -> None:
    (lines,) = blocks("toml", "One command")
    (example,) = tomllib.loads(lines)["clusters"]
    (demo,) = tomllib.loads(demo_config.read_text())["clusters"]
    assert "read_only" not in example  # the default
    for old, new in (
        (example["zookeeper"], demo["zookeeper"]),
        (example["admin_urls"][0], demo["admin_urls"][0]),
    ):
        lines = lines.replace(old, new)
    (tmp_path / "trimtab.toml").write_text(lines)
    monkeypatch.setenv("TRIMTAB_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(shell_lines("One command")[0], comments=True)
    assert run(words) == 0, capsys.readouterr()
    assert "traffic" in capsys.readouterr().out
