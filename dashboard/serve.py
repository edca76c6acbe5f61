"""Serve the pages: Streamlit on loopback, as a child of the ``trimtab`` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from streamlit.web import cli

from dashboard.supervisor import end_with_parent

PAGE: Final = Path(__file__).with_name("app.py")


def main() -> None:
    """Run Streamlit on the port given as the only argument."""
    end_with_parent()
    sys.argv = [
        "streamlit",
        "run",
        str(PAGE),
        f"--server.port={sys.argv[1]}",
        "--server.address=127.0.0.1",
        "--server.headless=true",
        "--server.fileWatcherType=none",
        "--browser.gatherUsageStats=false",
        # inputs that follow the cluster have a beginning and are moved on: both are meant
        "--global.disableWidgetStateDuplicationWarning=true",
    ]
    cli.main()


if __name__ == "__main__":
    main()
