"""Reading journal records from their JSON."""

from __future__ import annotations

import msgspec

from core.actions.events import RECORD_VERSION, Record
from core.plan.registry import StepRegistry


class _Versioned(msgspec.Struct):
    format_version: int


class RecordDecoder:
    """Reads records from their JSON.

    Args:
        steps: The kinds of steps that plans may hold.
    """

    def __init__(self, steps: StepRegistry) -> None:
        self._version = msgspec.json.Decoder(_Versioned)
        self._record = msgspec.json.Decoder(Record, dec_hook=steps.decode)

    def decode(self, text: str) -> Record:
        """Return the record of a stored text.

        Raises:
            msgspec.MsgspecError: It is no record, or one of another format.
        """
        version = self._version.decode(text).format_version
        if version != RECORD_VERSION:
            raise msgspec.ValidationError(
                f"it has format {version}; this version of Trimtab reads format {RECORD_VERSION}"
            )
        return self._record.decode(text)
