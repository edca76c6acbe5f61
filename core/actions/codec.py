"""Reading journal records: those of today's format, and those written before.

Format 1 had no ``format_version``; some of its kinds, fields and codes had other names. A record
keeps the text and the hash that it was written with: only what is read from it is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.actions.events import RECORD_VERSION, Record
from core.plan.registry import StepRegistry

_KINDS: Final[Mapping[str, str]] = {
    "ControlAsked": "ControlRequested",
    "StepBegun": "StepStarted",
    "ForeignMove": "ExternalMove",
}
_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "StepStarted": {"seen": "observed"},
    "StepEnded": {"ending": "result", "is_by_looking": "is_reconciled"},
    "SettingRestored": {"fate": "result"},
    "ExternalMove": {"bundle": "subject"},
}
_CODES: Final[Mapping[str, str]] = {
    "setting_not_kept": "setting_not_reapplied",
    "unsettled": "result_unknown",
}
"""Result codes that a run gives to the steps that it leaves undone."""


class _Versioned(msgspec.Struct):
    format_version: int = 1


class RecordDecoder:
    """Reads records from their JSON.

    Args:
        steps: The kinds of steps that plans may hold.
    """

    def __init__(self, steps: StepRegistry) -> None:
        self._steps = steps
        self._version = msgspec.json.Decoder(_Versioned)
        self._record = msgspec.json.Decoder(Record, dec_hook=steps.decode)

    def decode(self, text: str) -> Record:
        """Return the record of a stored text.

        Raises:
            msgspec.MsgspecError: It is no record, or one of a later format.
        """
        version = self._version.decode(text).format_version
        if version == 1:
            content = self._renamed(msgspec.json.decode(text))
            return msgspec.convert(content, Record, dec_hook=self._steps.decode)
        if version != RECORD_VERSION:
            raise msgspec.ValidationError(
                f"it has format {version}; this version of Trimtab reads formats 1 to "
                f"{RECORD_VERSION}"
            )
        return self._record.decode(text)

    def _renamed(self, content: Any) -> Any:
        """Return a record of format 1 with the names of today."""
        event = content.get("event") if isinstance(content, dict) else None
        if not isinstance(event, dict):
            return content
        kind = _KINDS.get(event.get("kind", ""), event.get("kind", ""))
        names = _FIELDS.get(kind, {})
        event = {names.get(name, name): value for name, value in event.items()} | {"kind": kind}
        result = event.get("result")
        if result == "left":
            event["result"] = "not_restored"
        elif isinstance(result, dict) and "code" in result:
            code = result["code"]
            code = _CODES.get(code) or self._steps.former_codes.get(code, code)
            event["result"] = result | {"code": code}
        return content | {"event": event}


def stored_kinds(*kinds: str) -> tuple[str, ...]:
    """Return the kinds of events with the names that they had in earlier formats."""
    return kinds + tuple(former for former, kind in _KINDS.items() if kind in kinds)
