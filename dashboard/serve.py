"""Serve the pages: Streamlit on loopback, as a child of the ``trimtab`` command."""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.middleware import Middleware

from dashboard.cli.supervisor import end_with_parent
from dashboard.host_guard import HostGuard, host_names
from dashboard.services import CONFIG_ENV

PAGE: Final = Path(__file__).with_name("app.py")

_FIRST_PAGE: Final = ("dashboard.components.frame", "dashboard.app_pages.fleet.systems")
"""What the first page imports, with all that is heavy under it."""

_OTHER_PAGES: Final = tuple(
    f"dashboard.app_pages.{name}.systems" for name in ("history", "run", "diagnose", "backtest")
)
"""What other pages import, so that opening them first does not take a second longer."""

_LOOK_S: Final = 0.1
_LOOKS: Final = 1200


def main() -> None:
    """Run Streamlit on the port of the first argument; the others are hosts of a proxy."""
    end_with_parent()
    program, port, *hosts = sys.argv
    sys.argv = [program]  # the rest would be arguments of the page
    threading.Thread(target=_import_first_page, name="import-first-page", daemon=True).start()
    app = st.App(PAGE, middleware=[Middleware(HostGuard, allowed_hosts=hosts)])
    app.run(
        config={
            "server.port": int(port),
            "server.address": "127.0.0.1",
            "server.headless": True,
            "server.fileWatcherType": "none",
            "server.allowedHosts": sorted(host_names(hosts)),
            "browser.gatherUsageStats": False,
            # its CSV and its clipboard hand out cells that a spreadsheet takes for formulas; our
            # own downloads do not
            "client.disableDataExport": True,
            # inputs that follow the cluster have a beginning and are moved on: both are meant
            "global.disableWidgetStateDuplicationWarning": True,
        }
    )


def _import_first_page() -> None:
    """Import what pages need, the first one's first, so that no visitor waits for it.

    It waits for the configuration: a demo writes it once its clusters run, and they need the
    processors until then.
    """
    path, wait = os.environ.get(CONFIG_ENV), threading.Event()
    for _ in range(_LOOKS):
        if not path or Path(path).is_file():
            break
        wait.wait(_LOOK_S)
    for name in (*_FIRST_PAGE, *_OTHER_PAGES):
        import_module(name)


if __name__ == "__main__":
    main()
