"""The process that hands one message to one target, through Apprise: webhooks, chats, pagers, mail.

A process of its own: what a target sends back, and how slowly, is the affair of a hundred libraries
that know no deadline for a whole answer. Whoever starts it (:mod:`connectors.alerts.targets`) ends
it in time, and its memory is bounded. The message comes on standard input, so that no address with
its secret is in a list of processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys
import warnings
from typing import Final

import msgspec

SENT: Final = 0
NOT_TAKEN: Final = 1
NO_ADDRESS: Final = 2
REDIRECTED: Final = 3
WITHIN_S: Final = 20.0
"""How long one message may take, whatever the target does."""
_MAX_BYTES: Final = 1024 * 1024 * 1024


class Message(msgspec.Struct):
    """Message to send.

    Attributes:
        url: Address in the form of Apprise.
        title: One line.
        text: Its body.
    """

    url: str
    title: str
    text: str


def main() -> int:
    """Send what standard input holds.

    Returns:
        :data:`SENT`, :data:`NOT_TAKEN`, :data:`NO_ADDRESS` or :data:`REDIRECTED`.
    """
    signal.alarm(round(2 * WITHIN_S))  # the process that would end it may be gone
    with contextlib.suppress(ValueError, OSError):  # a process of macOS has more from the start
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
    message = msgspec.json.decode(sys.stdin.buffer.read(), type=Message)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import apprise  # noqa: PLC0415  # half a second, after the limits are set

        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs addresses
        sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Trimtab", async_mode=False))
        if not sender.add(message.url):
            return NO_ADDRESS
        redirects = _refuse_redirects()
        is_sent = sender.notify(title=message.title, body=message.text)
        return REDIRECTED if redirects else SENT if is_sent else NOT_TAKEN


def _refuse_redirects() -> list[int]:
    """Let no request follow a redirect; return a list that gets the status of each one.

    A 301 or 302 makes a request without the message of the one that had it, and its success looks
    like a delivery; a 307 or 308 hands the message, with the headers of the target, to a host that
    no one has configured.
    """
    import requests  # noqa: PLC0415  # after the limits are set

    found: list[int] = []

    def refuse(_: object, resp: requests.Response) -> None:
        if resp.is_redirect:
            found.append(resp.status_code)

    requests.Session.get_redirect_target = refuse  # type: ignore[method-assign,assignment]  # this process only
    return found


if __name__ == "__main__":
    code = main()
    os._exit(code)  # whatever threads a library has left
