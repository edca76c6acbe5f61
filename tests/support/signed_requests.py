"""Entries as pages, command line and workers write them: signed by this installation."""

from __future__ import annotations

import msgspec

from connectors.access.key import installation_key
from connectors.config.access import AccessConfig
from core.access import Identity
from core.actions.authority import signed
from core.actions.events import ControlRequested, Record, RunDecided, RunRequested


def as_requested(record: Record, access: AccessConfig | None = None) -> Record:
    """Return an entry with its signature, a person's request with its identity, too."""
    event = record.event
    if isinstance(event, RunRequested | ControlRequested | RunDecided):
        event = msgspec.structs.replace(
            event, identity=event.identity or Identity(name=record.actor)
        )
    key = installation_key(access or AccessConfig())
    return signed(msgspec.structs.replace(record, event=event), key)
