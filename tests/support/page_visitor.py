"""A visitor of the pages who speaks what a browser speaks: cookies, and protobuf over a WebSocket.

Unlike a browser it may press a button that its page does not offer, or offers as disabled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from socket import create_connection
from urllib.parse import urlsplit

import requests
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

WAIT_S = 60.0


@dataclass
class Seen:
    """What a page sent: all as text, its buttons, paths of its downloads, where it leads."""

    text: str = ""
    buttons: dict[str, str] = field(default_factory=dict)
    downloads: list[str] = field(default_factory=list)
    leads_to: str = ""
    session: str = ""


@dataclass
class Visitor:
    """One browser.

    Attributes:
        address: Of the pages.
        session: Its cookies.
        origin: The address that it believes to be at, behind a proxy; empty: the pages' own.
    """

    address: str
    session: requests.Session = field(default_factory=requests.Session)
    origin: str = ""

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.address + path, allow_redirects=False, timeout=WAIT_S)

    def page(self, name: str, query: str = "", press: str = "") -> Seen:
        """Open a page, and press the button of an id."""
        self.get("/_stcore/health")  # sets the cookie against forged requests
        token = self.session.cookies.get("_streamlit_xsrf") or "none"
        cookies = "; ".join(f"{one.name}={one.value}" for one in self.session.cookies)
        origin, place = self.origin or self.address, urlsplit(self.address)
        with connect(
            f"ws://{urlsplit(origin).netloc}/_stcore/stream",
            sock=create_connection((place.hostname, place.port)),
            subprotocols=["streamlit", token],  # type: ignore[list-item]
            origin=origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": cookies},
            max_size=None,
        ) as socket:
            request = BackMsg()
            request.rerun_script.query_string = query
            request.rerun_script.page_name = name
            seen = _answered(socket, request)
            seen.downloads = [_made(socket, seen.session, one) for one in seen.downloads]
            if press:
                widget = request.rerun_script.widget_states.widgets.add()
                widget.id, widget.trigger_value = press, True
                pressed = _answered(socket, request)
                pressed.buttons = seen.buttons | pressed.buttons
                return pressed
            return seen


def _answered(socket: ClientConnection, request: BackMsg) -> Seen:
    socket.send(request.SerializeToString())
    seen = Seen()
    while True:
        data = socket.recv(WAIT_S, decode=False)
        message = ForwardMsg.FromString(bytes(data))
        seen.session = message.new_session.initialize.session_id or seen.session
        seen.text += bytes(data).decode("utf-8", "replace")
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "button":
            seen.buttons[element.button.label] = element.button.id
        elif kind == "download_button":
            seen.downloads.append(element.download_button.deferred_file_id)
        if message.HasField("auth_redirect"):
            seen.leads_to = message.auth_redirect.url
            return seen
        is_end = message.HasField("script_finished")
        if is_end and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            return seen


def _made(socket: ClientConnection, session: str, deferred: str) -> str:
    """Have a file made, as the browser does at the click; return its path."""
    request = BackMsg()
    request.backend_operation_request.session_id = session
    request.backend_operation_request.request_id = deferred
    request.backend_operation_request.deferred_file.file_id = deferred
    socket.send(request.SerializeToString())
    while True:
        message = ForwardMsg.FromString(bytes(socket.recv(WAIT_S, decode=False)))
        answer = message.backend_operation_response
        if answer.request_id == deferred:
            assert not answer.error_msg, answer.error_msg
            return str(answer.deferred_file.url)
