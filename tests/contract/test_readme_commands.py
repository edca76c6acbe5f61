"""The README's commands, word for word, on the fleet that the demo runs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from dashboard.cli.main import run

ROOT = Path(__file__).parent.parent.parent
TRIMTAB = ".venv/bin/trimtab"


def shell_lines(heading: str = "") -> list[str]:
    """Return the lines of all shell blocks of the README, or of one section of it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    blocks = [
        block
        for section in sections
        if section.startswith(heading)
        for block in re.findall(r"^```sh\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    ]
    return [line for block in blocks for line in block.splitlines() if line]


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
