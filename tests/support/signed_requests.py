"""Requests as the pages and the command line write them: signed by this installation."""

from __future__ import annotations

import msgspec

from connectors.access.key import installation_key
from connectors.config.access import AccessConfig
from core.access import Identity
from core.actions.authority import signed
from core.actions.events import ControlRequested, Record, RunRequested


def as_requested(record: Record, access: AccessConfig | None = None) -> Record:
    """Return a person's request with its identity and signature; others as they are."""
    event = record.event
    if not isinstance(event, RunRequested | ControlRequested):
        return record
    identity = event.identity or Identity(name=record.actor)
    named = msgspec.structs.replace(event, identity=identity)
    key = installation_key(access or AccessConfig())
    return signed(msgspec.structs.replace(record, event=named), key)
