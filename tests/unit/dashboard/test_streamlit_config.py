"""Streamlit's configuration is found wherever the product is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from places import ROOT

DASHBOARD = ROOT / "dashboard"
SHOW = """
import os, sys
from streamlit import config
from streamlit.web import bootstrap

load = bootstrap.load_config_options

def show(options):
    load(options)
    print(config.get_option("runner.magicEnabled"), config.get_option("theme.baseFontSize"))
    sys.stdout.flush()
    os._exit(0)

bootstrap.load_config_options = show
sys.argv = ["dashboard.serve", "127.0.0.1", "1"]
from dashboard.serve.__main__ import main
main()
"""


def test_the_server_reads_theme_and_switches_from_any_working_directory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(DASHBOARD.parent), "TRIMTAB_STATE_DIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "14"]


def test_a_start_from_the_repository_reads_the_same_configuration() -> None:
    """The package needs the file beside its scripts, `streamlit run` at the top level."""
    top = DASHBOARD.parent / ".streamlit" / "config.toml"
    assert top.read_bytes() == (DASHBOARD / ".streamlit" / "config.toml").read_bytes()
