"""Applying a plan for a Pulsar cluster: what moves, which clients notice, pausing the shedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import streamlit as st

from core.plan.model import Plan
from core.pulsar.plan.preview import Preview
from core.units import pluralize
from dashboard import state
from dashboard.components import tables, words
from dashboard.components.applying import ApplyDialog, PauseOption
from dashboard.presenters.pulsar import unload

_MAX_OVERLOADS: Final = 3
_PAUSE: Final = PauseOption(
    "Pause shedding during the run",
    "Sets loadBalancerSheddingEnabled=false during the run, so that the cluster does not move "
    "bundles at the same time. The value is restored when the run ends; the journal records "
    "both changes.",
)


@dataclass(frozen=True, eq=False)
class PulsarDialog(ApplyDialog):
    """A plan for a Pulsar cluster that is about to be applied.

    Attributes:
        preview: Its preview, as shown.
        is_shedding: The cluster sheds by itself, as far as its snapshot tells.
        sentence: What the page says the plan would do; blank: that of the unload preview.
        caveat: Why the plan should rather not be applied; blank: its diagnostics decide.
    """

    example: ClassVar[str] = "10.1.0.3 is overloaded since the 14:00 release"

    preview: Preview
    is_shedding: bool
    sentence: str = ""
    caveat: str = ""

    @property
    def doubt(self) -> str:
        """The warnings against the plan from its diagnostics, else from the page."""
        return super().doubt or self.caveat

    @property
    def pause(self) -> PauseOption | None:
        """The pause of the balancer, if it sheds and could disturb the moves."""
        return _PAUSE if self.is_shedding and self.plan.is_placed_by_cluster else None

    def draw_effects(self) -> None:
        """Draw the moves and the number of clients that reconnect."""
        preview = self.preview
        st.markdown(words.plain(self.sentence or unload.answer(self.plan, preview)))
        warn_of_overloads(preview)
        if preview.steps:
            _moves(preview)
            words.notes([other.sentence for other in preview.others])
        if preview.steps or any(other.clients for other in preview.others):
            st.caption(words.plain(preview.clients.sentence()))
        for item in self.plan.diagnostics:
            if item.code == "split_verdict" and item.severity == "info":
                st.success(words.plain(item.sentence), icon=":material/call_split:")


def warn_of_overloads(preview: Preview) -> None:
    """Name the brokers that the plan takes over the overload limit."""
    for sentence in preview.overloads[:_MAX_OVERLOADS]:
        st.warning(words.plain(sentence), icon=":material/warning:")
    further = len(preview.overloads) - _MAX_OVERLOADS
    if further > 0:
        st.caption(f"{pluralize(further, 'further broker')} over the limit.")


def _moves(preview: Preview) -> None:
    rows = unload.steps_table(preview)
    tables.table(
        rows,
        {
            "from": tables.words("From"),
            "to": tables.words("To"),
            "clients": tables.whole("Clients"),
            "bundle": tables.words("Bundle"),
        },
        key="_apply_steps",
        alt="Steps of the plan",
        height=min(240, tables.height_of(len(rows))),
    )


def in_dialog() -> tuple[Plan, Preview] | None:
    """Return the plan in the open dialog, as the page behind it shows; ``None`` if none is open."""
    dialog = state.open_dialog()
    return (dialog.plan, dialog.preview) if isinstance(dialog, PulsarDialog) else None
