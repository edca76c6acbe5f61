"""Sending a message to a target, within a time that no target can stretch."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import msgspec

from connectors.alerts.deliver import NO_ADDRESS, REDIRECTED, SENT, WITHIN_S, Message
from connectors.config.alerts import TargetConfig
from connectors.transport import deadline
from core.errors import GivenUpError, InputError, RemoteTimeoutError, UnreachableError

_OPERATION: Final = "send an alert"
_COMMAND: Final = (sys.executable, "-m", "connectors.alerts.deliver")


def send(target: TargetConfig, title: str, text: str) -> None:
    """Send a message to a target.

    Raises:
        InputError: Its address is none that Apprise knows; it is not repeated.
        ConfigError: Its file cannot be read.
        UnreachableError: It did not take the message, or redirects it to another address.
        RemoteTimeoutError: It did not take it within :data:`WITHIN_S`.
        GivenUpError: This process ends.
    """
    message = msgspec.json.encode(Message(url=target.read_url(), title=title, text=text))
    place = f"target {target.name}"
    hint = f"Check its address, then run: trimtab alerts test {target.name}"
    try:
        code = _delivered(message)
    except deadline.GivenUpError as exc:
        raise GivenUpError.at(place, _OPERATION) from exc
    if code is None:
        raise RemoteTimeoutError(
            f"Target {target.name} did not accept the message within {WITHIN_S:.0f} s.",
            endpoint=place,
            operation=_OPERATION,
            outcome="unknown",
            hint=hint,
        )
    if code == NO_ADDRESS:
        raise InputError(
            f"The address of target {target.name} is not supported.",
            hint="Use an Apprise URL, for example json://host:port/path.",
        )
    if code != SENT:
        is_redirect = code == REDIRECTED
        what = "redirects to another address" if is_redirect else "did not accept the message"
        raise UnreachableError(
            f"Target {target.name} {what}.",
            endpoint=place,
            operation=_OPERATION,
            outcome="unknown",
            hint="Configure the address that it redirects to." if is_redirect else hint,
        )


def _delivered(message: bytes) -> int | None:
    """Return the exit code of the sending process, or ``None`` if it timed out.

    Raises:
        GivenUpError: It is not waited for any more.
    """
    with subprocess.Popen(  # noqa: S603 - our own module, no shell
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches us alone
    ) as process:
        unsent = [message]

        def has_ended(wait_s: float) -> bool:
            try:
                process.communicate(unsent.pop() if unsent else None, timeout=wait_s)
            except subprocess.TimeoutExpired:
                return False
            return True

        try:
            if not deadline.awaited(has_ended, WITHIN_S):
                return None
        except deadline.DeadlineError:
            return None
        finally:
            if process.poll() is None:
                process.kill()
        return process.returncode
