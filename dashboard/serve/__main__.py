"""Serve the pages: Streamlit, as a child of the ``trimtab`` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.middleware import Middleware
from streamlit.runtime import app_session, memory_session_storage

from dashboard import services, theme_message, warm_up
from dashboard.api import routes
from dashboard.cli.supervisor import answers, end_with_parent
from dashboard.disconnected_sessions import DisconnectedSessions
from dashboard.host_guard import HostGuard, host_names
from dashboard.page_names import PageNames
from dashboard.probes import ROUTES
from dashboard.sign_in import SignInGuard
from dashboard.unsent import UnsentMessages

PAGE: Final = Path(__file__).parents[1] / "app.py"

_KEPT_FROM_BYTES: Final = 1_500
"""Smaller messages are sent again: what a browser has is named to the server with every click."""
_KEPT_RUNS: Final = 20

_ANSWERS_WITHIN_S: Final = 10.0
"""Pages that many look at may take as long, and are well."""

_LEFT_S: Final = 60
"""So long a browser whose connection broke finds its session again."""


def main() -> None:
    """Run Streamlit on the address and the port of the first arguments; the rest are proxies."""
    _, address, port, *hosts = sys.argv
    end_with_parent(lambda: answers(address, int(port), "/healthz", _ANSWERS_WITHIN_S))
    # Streamlit reads the configuration next to the program; the rest would be arguments of the page
    sys.argv = [str(PAGE)]
    # uvicorn would put what X-Forwarded-For says in the place of the address that a request came
    # from, for every sender on this machine; which proxies are trusted is [access.proxy]'s to say
    os.environ["FORWARDED_ALLOW_IPS"] = "none"
    services.set_up_logging()
    warm_up.start()
    # the app makes its storage itself, and takes none
    memory_session_storage.MemorySessionStorage = DisconnectedSessions  # type: ignore[assignment,misc]
    theme_message.compose_once()
    app_session.ForwardMsgQueue = UnsentMessages  # type: ignore[attr-defined]
    app = st.App(
        PAGE,
        routes=[*ROUTES, *routes.ROUTES],
        middleware=[
            Middleware(HostGuard, allowed_hosts=hosts),
            Middleware(SignInGuard),
            Middleware(PageNames),
        ],
    )
    app.run(
        config={
            "server.port": int(port),
            "server.address": address,
            "server.headless": True,
            "server.fileWatcherType": "none",
            "server.allowedHosts": sorted(host_names(hosts)),
            "server.disconnectedSessionTTL": _LEFT_S,
            "browser.gatherUsageStats": False,
            # its CSV and its clipboard hand out cells that a spreadsheet takes for formulas; our
            # own downloads do not
            "client.disableDataExport": True,
            # inputs that follow the cluster have a beginning and are moved on: both are meant
            "global.disableWidgetStateDuplicationWarning": True,
            # a collection after every run makes each page wait; warm_up.py collects
            "runner.postScriptGC": False,
            # pages are often looked at through a tunnel or a proxy
            "server.enableWebsocketCompression": True,
            # a browser keeps what it was sent: the same again, also on the way back to a page, is
            # a reference of a few bytes; by default that begins at 10 kB and lasts two runs
            "global.minCachedMessageSize": _KEPT_FROM_BYTES,
            "global.maxCachedMessageAge": _KEPT_RUNS,
        }
    )


if __name__ == "__main__":
    main()
