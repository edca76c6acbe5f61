"""Which kinds of steps a plan may hold, looked up by tag; handed in by the caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from core.step import Step, StepBase


class StepRegistry:
    """The kinds of steps of some systems.

    Args:
        kinds: Their classes.
    Raises:
        ValueError: Two kinds have one tag.
    """

    def __init__(self, kinds: Iterable[type[StepBase]]) -> None:
        self.kinds = tuple(kinds)
        self._by_tag = {str(kind.__struct_config__.tag): kind for kind in self.kinds}
        if len(self._by_tag) != len(self.kinds):
            raise ValueError("Two kinds of steps have one tag.")

    def decode(self, wanted: type, content: Any) -> Any:
        """Return a step of a decoded document; the ``dec_hook`` of a decoder.

        Args:
            wanted: Type that the document needs there.
            content: What was read.
        Raises:
            ValueError: It is no step of a known kind.
            NotImplementedError: Another type is needed.
        """
        if wanted is not Step:
            raise NotImplementedError
        tag = content.get("kind") if isinstance(content, dict) else None
        kind = self._by_tag.get(tag) if isinstance(tag, str) else None
        if kind is None:
            raise ValueError(f"Unknown kind of step {tag!r}")
        try:
            return msgspec.convert(content, type=kind)
        except msgspec.ValidationError as exc:
            raise ValueError(str(exc)) from exc
