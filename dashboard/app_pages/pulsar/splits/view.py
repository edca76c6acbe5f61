"""The chosen bundle of the page of splits: algorithms side by side, parts, ring, plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go
import pyarrow as pa
import streamlit as st

from core.errors import InputError, OpsError, RemoteError
from core.pulsar.plan.preview import Preview
from core.pulsar.split import ALGORITHMS, SplitWhatIf, TopicLoads, explain_split
from core.pulsar.split.algorithms import most_even_position
from core.snapshot import PulsarSnapshot
from core.units import format_ratio, pluralize
from dashboard import services, state
from dashboard.app_pages.pulsar.splits import model
from dashboard.app_pages.pulsar.splits.charts import cut_strip
from dashboard.charts.ring import namespace_ring
from dashboard.components import action_bar, figures, tables, words
from dashboard.components.pulsar import moves_plan
from dashboard.components.pulsar.applying import PulsarDialog
from dashboard.components.pulsar.explain import draw_conditions
from dashboard.presenters.pulsar.bundles import ring_data
from dashboard.presenters.pulsar.explain import split_conditions_table
from dashboard.presenters.pulsar.topics import read_words, web_addresses_of
from dashboard.queries.pulsar import explanations
from dashboard.services import pulsar

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_RING_PX: Final = 240
_OPEN: Final = ("unknown", "assumed")
"""Verdicts that neither speak for the split nor against it."""


@dataclass(frozen=True, eq=False)
class SelectedBundle:
    """The bundle that is looked at.

    Attributes:
        page: The page.
        bundle: Its name.
        topics: Its topics, where they were read.
        read_at: When that was.
        snapshot: The snapshot, with these topics.
    """

    page: PulsarPage
    bundle: str
    topics: pa.Table | None
    read_at: datetime | None
    snapshot: PulsarSnapshot

    @classmethod
    def of(cls, page: PulsarPage, bundle: str) -> SelectedBundle:
        """Take the topics that this session has read."""
        read = state.topics_of(page.name, bundle)
        topics, read_at = (None, None) if read is None else (read.table, read.read_at)
        whole = explanations.with_topics(page.reading.snapshot, topics)
        return cls(page, bundle, topics, read_at, whole)

    def explained(self, algorithm: str, positions: Sequence[int] = ()) -> SplitWhatIf:
        """Return the outcome of one algorithm."""
        return explain_split(
            self.snapshot,
            self.page.reading.settings,
            self.bundle,
            algorithm=algorithm,
            positions=positions,
        )

    def best_position(self) -> tuple[int, ...]:
        """Return the one position that halves the load best; the middle where nothing is known."""
        loads = TopicLoads.of(self.snapshot.topics, self.bundle)
        best = None if loads is None else most_even_position(loads)
        if best is not None:
            return (best[0],)
        return self.explained("range_equally_divide").positions


def topics_button(chosen: SelectedBundle) -> None:
    """Offer to read the bundle's topics: without them the parts' loads are assumed."""
    page, snapshot = chosen.page, chosen.page.reading.snapshot
    owner = chosen.explained("range_equally_divide").subject.owner
    address = page.cluster.web_address(*web_addresses_of(snapshot, str(owner or "")))
    is_clicked = st.button(
        "Fetch topics",
        icon=":material/cloud_download:",
        disabled=not address,
        help="Topics with hash and traffic, read from the owner broker.",
    )
    if chosen.topics is not None and chosen.read_at is not None:
        read = read_words(chosen.read_at, services.now())
        count = pluralize(chosen.topics.num_rows, "topic")
        st.caption(f"{count}. {read}", width="content")
    if not is_clicked:
        return
    try:
        with st.spinner(words.plain(f"Querying {owner}"), show_time=True):
            topics = pulsar.fetch_topics(page.cluster, str(address), chosen.bundle)
    except (RemoteError, InputError) as error:
        words.failed(error, what="Could not read the topics")
        return
    state.keep_topics(page.name, chosen.bundle, state.ReadTopics(topics, services.now()))
    st.rerun()


def compared(chosen: SelectedBundle) -> None:
    """Draw every algorithm side by side, and the reasons for the verdict."""
    best = chosen.best_position()
    found = [
        chosen.explained(name, best if name == model.SPECIFIED else ())
        for name in ALGORITHMS
        if best or name != model.SPECIFIED
    ]
    rows = model.algorithms_table(found)
    tables.table(
        rows,
        {
            "algorithm": tables.opener("Algorithm", "_split_algorithm", _choose_algorithm),
            "verdict": tables.words("Verdict"),
            "at": tables.words("Boundary"),
            "largest": tables.share("Largest part", "Share of the load in the largest part."),
            "basis": tables.words("Known"),
        },
        key="split_algorithms",
        alt=f"Split algorithms on {chosen.bundle}",
    )
    words.notes(
        [f"{name}: {why}" for name, why in zip(rows["algorithm"], rows["why"], strict=True) if why]
    )
    st.caption(f"{model.SPECIFIED} is shown at the best position for equal load.")


def picked(chosen: SelectedBundle) -> tuple[SplitWhatIf, bool] | None:
    """Draw the choice of algorithm; return its outcome, and whether the parts are unloaded."""
    default = chosen.page.reading.settings.text("defaultNamespaceBundleSplitAlgorithm")
    names = list(ALGORITHMS)
    with st.container(horizontal=True, vertical_alignment="bottom", width="content"):
        algorithm = st.selectbox(
            "Algorithm",
            names,
            index=names.index(default) if default in names else 0,
            key=state.ALGORITHM,
            bind="query-params",
            width=230,
        )
        text = ""
        if algorithm == model.SPECIFIED:
            best = model.position_text(chosen.best_position())
            text = st.text_input(
                "Positions",
                value=best,
                key=state.POSITIONS,
                bind="query-params",
                width=220,
            )
        is_unloaded = st.toggle(
            "Unload parts",
            key=state.PARTS,
            bind="query-params",
            help="Reassigns each part; clients reconnect.",
        )
    try:
        positions = model.parsed_positions(text or "")
        return chosen.explained(str(algorithm), positions), bool(is_unloaded)
    except InputError as error:
        words.failed(error, what="Split position")
        return None


def verdict(what_if: SplitWhatIf) -> None:
    """Draw whether the split helps, and the button that takes a better cut where there is one."""
    judged = what_if.verdict
    is_best = judged.code == "helps" and not judged.hint
    show = st.success if is_best else st.info if judged.code in _OPEN else st.warning
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        show(words.plain(f"{judged.sentence} {judged.hint}".strip()), icon=":material/call_split:")
        if judged.better:
            st.button(
                f"Use {model.position_text(judged.better)}",
                icon=":material/content_cut:",
                key="_better_cut",
                help=f"Split by {model.SPECIFIED} there.",
                on_click=cut_at,
                args=(judged.better,),
            )


def cut_at(positions: Sequence[int]) -> None:
    """Cut at these positions; for callbacks."""
    st.session_state[state.ALGORITHM] = model.SPECIFIED
    st.session_state[state.POSITIONS] = model.position_text(positions)


def _choose_algorithm(name: str) -> None:
    st.session_state[state.ALGORITHM] = name


def outcome(chosen: SelectedBundle, what_if: SplitWhatIf) -> None:
    """Draw the boundary of the split and the load of the parts."""
    figures.chart(
        cut_strip(model.cut_data(what_if, chosen.topics)),
        key="split_strip",
        alt=f"{chosen.bundle}: {len(what_if.parts)} parts after the split",
    )
    tables.table(
        model.parts_table(what_if),
        {
            "part": tables.words("Part"),
            "share": tables.share("Share"),
            "topics": tables.whole("Topics"),
            "throughput": tables.megabytes("Current traffic", "As last reported."),
            "msg_rate": tables.rate("Current rate", "As last reported."),
            "sessions": tables.whole("Clients"),
        },
        key="split_parts",
        alt="Load of each part",
        missing="\u2013",
    )
    words.notes([what_if.cost.sentence, *what_if.notes])


def rings(chosen: SelectedBundle, what_if: SplitWhatIf) -> None:
    """Draw the ring of the namespace now and after."""
    namespace = what_if.subject.namespace
    hashes = chosen.topics["hash"].to_pylist() if chosen.topics is not None else []
    ring = ring_data(
        chosen.page.reading.bundles, namespace, marked=chosen.bundle, topic_hashes=hashes
    )
    if ring is None:
        return
    pairs = (("now", ring), ("after", model.ring_after(ring, what_if)))
    for column, (moment, data) in zip(st.columns(2, gap="small"), pairs, strict=True):
        with column:
            st.caption(f"Ring of {words.plain(namespace)} {moment}")
            figure = go.Figure(namespace_ring(data, height=_RING_PX))
            figure.update_layout(showlegend=False, margin={"l": 66, "r": 66, "t": 24, "b": 24})
            figures.chart(
                figure, key=f"split_ring_{moment}", alt=f"Hash ring of {namespace} {moment}"
            )


def conditions(chosen: SelectedBundle, what_if: SplitWhatIf) -> None:
    """Draw the conditions of an automatic split."""
    st.markdown(words.plain(what_if.when))
    draw_conditions(split_conditions_table(what_if.conditions), chosen.bundle)


def planned(chosen: SelectedBundle, what_if: SplitWhatIf, *, is_unloaded: bool) -> None:
    """Draw the plan of the split and its actions."""
    page = chosen.page
    request = explanations.SplitRequest(
        stored=page.stored,
        bundle=chosen.bundle,
        algorithm=what_if.algorithm,
        positions=what_if.positions if what_if.algorithm == model.SPECIFIED else (),
        is_unloaded=is_unloaded,
        exclusions=tuple(page.cluster.exclusions),
        topics=chosen.topics,
        topics_read_at=chosen.read_at,
    )
    try:
        plan, preview = explanations.split_preview(request)
    except OpsError as error:
        words.failed(error, what="Could not plan the split")
        return
    dialog = state.open_dialog()
    # behind an open dialog stands what it is about
    if isinstance(dialog, PulsarDialog):
        plan, preview = dialog.plan, dialog.preview
    said = (what_if.verdict.sentence, what_if.cost.sentence)
    for item in plan.diagnostics:
        if not item.sentence.startswith(said):  # these stand above already
            show = {"error": st.error, "warning": st.warning}.get(item.severity, st.info)
            show(words.plain(f"{item.sentence} {item.hint}".strip()))
    if preview.others:
        dialog = moves_plan.dialog_of(page, plan, preview)
        moves_plan.draw_bar(
            page, dialog, key="splits", effects=_effects(what_if, preview), is_preview=True
        )


def _effects(what_if: SplitWhatIf, preview: Preview) -> list[action_bar.PlanFigure]:
    """Return the four figures of a split."""
    clients = sum(other.clients.clients or 0 for other in preview.others if other.clients)
    largest = model.largest_share(what_if)
    return [
        action_bar.PlanFigure(label="Parts", value=f"{len(what_if.parts):,}", note="irreversible"),
        action_bar.PlanFigure(
            label="Largest part", value=format_ratio(largest), note="of the load"
        ),
        action_bar.PlanFigure(label="Clients", value=f"{clients:,}", note="reconnect"),
    ]
