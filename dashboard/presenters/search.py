"""What a search in a snapshot finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["topic", "broker", "namespace", "bundle", "node", "table", "partition"]


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
