"""Contract of a system with the Diagnose page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from core.diagnosis.model import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPage:
    """A page that leads on from a cause, with the change filled in.

    Attributes:
        label: Verb and object.
        page: Its name.
        params: Of its address.
        icon: Material symbol.
        help: One sentence.
    """

    label: str
    page: str
    params: Mapping[str, str | list[str]]
    icon: str
    help: str = ""


class DiagnoseSystem(Protocol):
    """One system, as the Diagnose page uses it."""

    @property
    def subject(self) -> str:
        """The noun for what moves, as a label."""

    def next_pages(self, page: Any, cause: Cause) -> Sequence[NextPage]:
        """Return at most two pages where a fix is tried and planned, the recommended one first."""

    def links(self, page: Any) -> None:
        """Draw links to the pages that have the details."""
