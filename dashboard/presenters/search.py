"""Matches of a search in a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

View = Literal["page", "action", "cluster", "view", "theme", "run"]
Kind = Literal[
    View,
    "topic",
    "broker",
    "namespace",
    "bundle",
    "policy",
    "setting",
    "node",
    "table",
    "partition",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One thing found.

    Attributes:
        kind: What it is.
        name: Its name.
        detail: A few words more.
        page: Key of the page that shows it.
        params: Query parameters of that page.
    """

    kind: Kind
    name: str
    detail: str
    page: str
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The key of the hit, unique among all hits."""
        return f"{self.kind}:{self.page}:{self.name}"
