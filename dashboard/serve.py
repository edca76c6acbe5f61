"""Serve the pages: Streamlit on loopback, as a child of the ``trimtab`` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.middleware import Middleware

from dashboard import warm_up
from dashboard.cli.supervisor import end_with_parent
from dashboard.host_guard import HostGuard, host_names

PAGE: Final = Path(__file__).with_name("app.py")

def main() -> None:
    """Run Streamlit on the port of the first argument; the others are hosts of a proxy."""
    end_with_parent()
    program, port, *hosts = sys.argv
    sys.argv = [program]  # the rest would be arguments of the page
    warm_up.start()
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
            # a collection after every run makes each page wait; warm_up.py collects
            "runner.postScriptGC": False,
        }
    )


if __name__ == "__main__":
    main()
