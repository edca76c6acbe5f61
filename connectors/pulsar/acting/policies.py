"""The policies of a Pulsar cluster behind its admin interface: read one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from connectors.pulsar_admin.capture import ADMIN
from connectors.pulsar_admin.client import AdminAnswer
from core.errors import InputError, NotFoundError, ProtocolError
from core.pulsar.policy_kinds import DEFAULT_QUOTA_NAME, PolicyKind, policy_kind
from core.pulsar.steps.policy import SetPolicy

_NOTHING: Final = (b"", b"null", b'""')
Ask = Callable[[str, str, bytes | None], AdminAnswer]
"""Method, path and body to the first broker that answers."""


def read_policy(step: SetPolicy, ask: Ask) -> str | None:
    """Return the policy that a step is about, in its one form; ``None``: it is not set.

    Raises:
        RemoteError: It cannot be read.
    """
    kind = policy_kind(step.policy)
    value = _read(kind, kind.path(step.name, step.cluster), ask)
    if kind.scope == "bundle" and step.name != DEFAULT_QUOTA_NAME and value is not None:
        # brokers answer with everybody's quota where a bundle has none of its own
        common = _read(kind, kind.path(DEFAULT_QUOTA_NAME, step.cluster), ask)
        return None if kind.is_same(value, common) else value
    return value


def _read(kind: PolicyKind, path: str, ask: Ask) -> str | None:
    try:
        answer = ask("GET", f"{ADMIN}/{path}", None)
    except NotFoundError:
        return None
    body = answer.body.strip()
    if body in _NOTHING:
        return None
    text = body.decode("utf-8", "replace")
    if kind.is_text:
        return _unquoted(text)
    try:
        return kind.canonical(text)
    except InputError as exc:
        raise ProtocolError(
            f"{answer.url} does not report a {kind.title}: {exc.message}",
            endpoint=answer.url,
            operation=f"GET {path}",
            outcome="refused",
            hint="Is that the web address of a Pulsar broker?",
        ) from exc


def _unquoted(text: str) -> str:
    """Return a name that is answered as JSON or as it is."""
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return text
