"""Telling a target, through Apprise: webhooks, chats, pagers, mail."""

from __future__ import annotations

import logging
import warnings
from typing import Final

from connectors.config.alerts import TargetConfig
from core.errors import InputError, UnreachableError

_OPERATION: Final = "send an alert"


def send(target: TargetConfig, title: str, text: str) -> None:
    """Send a message to a target.

    Raises:
        InputError: Its address is none that Apprise knows; it is not repeated.
        ConfigError: Its file cannot be read.
        UnreachableError: It did not take the message.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what it imports
        import apprise  # noqa: PLC0415  # half a second, for those who have targets

        # it logs addresses, with the secrets in them
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Trimtab", async_mode=False))
        is_known = sender.add(target.read_url())
    if not is_known:
        raise InputError(
            f"The address of target {target.name} is none that can be sent to.",
            hint="Write it as the documentation of Apprise says, for example json://host:port/path.",
        )
    if not sender.notify(title=title, body=text):
        raise UnreachableError(
            f"Target {target.name} did not take the message.",
            endpoint=f"target {target.name}",
            operation=_OPERATION,
            outcome="unknown",
            hint=f"Check its address, then run: trimtab alerts test {target.name}",
        )
