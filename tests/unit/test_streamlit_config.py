"""Streamlit's configuration is found wherever the product is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

DASHBOARD = ROOT / "dashboard"
READ = """
import sys
from streamlit import config
config._main_script_path = sys.argv[1]
config.get_config_options(force_reparse=True)
print(config.get_option("runner.magicEnabled"), config.get_option("theme.baseFontSize"))
"""


@pytest.mark.parametrize("script", ["serve.py", "app.py"])
def test_theme_and_switches_do_not_depend_on_the_working_directory(
    tmp_path: Path, script: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(DASHBOARD / script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "14"]


def test_a_start_from_the_repository_reads_the_same_configuration() -> None:
    """The package needs the file beside its scripts, `streamlit run` at the top level."""
    top = DASHBOARD.parent / ".streamlit" / "config.toml"
    assert top.read_bytes() == (DASHBOARD / ".streamlit" / "config.toml").read_bytes()
