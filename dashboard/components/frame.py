"""Frame of every page: the header, and the states in which there is nothing to show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar, cast

import streamlit as st

from core.errors import ConfigError, ForbiddenError, OpsError, SnapshotError
from dashboard import services, sign_in, state
from dashboard.components import guide, identity, navigation, words
from dashboard.components.header import Choice, render_header
from dashboard.components.page import AnyPage
from dashboard.components.systems import system_of
from dashboard.components.waiting import no_clusters, no_snapshot
from dashboard.queries import access, runs
from dashboard.queries.snapshots import SavedSnapshots, saved_snapshots
from dashboard.services.demo import note_opened
from dashboard.sitemap import kinds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlit.delta_generator import DeltaGenerator

    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config


_FRAME: Final = "_frame"

P = TypeVar("P", bound=AnyPage)


def draw_header(page: str) -> None:
    """Draw the header; the entry file does it, so that its choices outlive a change of page.

    Args:
        page: Name of the page that follows.
    """
    words.style()
    navigation.mark_chosen(page)
    words.forget_title()
    kinds = kinds_of(page)
    try:
        config = access.page_config()
    except OpsError as error:
        st.session_state[_FRAME] = error
        return
    offered = [cluster for cluster in config.clusters if cluster.kind in kinds]
    listed = config.clusters
    if page == "run":
        offered = listed = _of_shown_run(config, offered)
    choice = render_header(config, offered, listed) if offered else None
    st.session_state[_FRAME] = (config, kinds, choice)


def _of_shown_run(config: Config, offered: list[Cluster]) -> list[Cluster]:
    """Return only the cluster of the run that is shown; all where that cannot be known."""
    run_id = state.text(state.RUN)
    try:
        shown = runs.find(config, run_id) if run_id else None
    except OpsError:
        return offered  # the page itself says why
    return [one for one in offered if shown is not None and one.name == shown.cluster] or offered


def _drawn(title: str) -> tuple[Config, Choice]:
    """Return the choice in the header; stop where no cluster of the page's kind is configured."""
    with st.container(key="head", horizontal=True, vertical_alignment="center", gap="medium"):
        words.title(title)
        navigation.draw_row(state.page())
        guide.draw(state.page())
    drawn = st.session_state[_FRAME]
    if isinstance(drawn, OpsError):
        is_ours = isinstance(drawn, ConfigError)
        words.failed(drawn, what=f"{'Invalid configuration' if is_ours else 'Page not available'}")
        if isinstance(drawn, ForbiddenError):
            identity.go_button("Sign in", sign_in.SIGN_IN, icon=":material/login:")
        st.stop()
    config, kinds, choice = cast("tuple[Config, Sequence[str], Choice | None]", drawn)
    if choice is None:
        no_clusters(config, kinds)
        st.stop()
    return config, choice


def columns(widths: Sequence[float], *, key: str) -> list[DeltaGenerator]:
    """Return parts of a page next to each other; in a narrow window one is below the other.

    Args:
        widths: Shares of the width.
        key: Unique on the page.
    """
    with st.container(key=f"columns_{key}"):
        return st.columns(widths, gap="small")


def open_page(title: str, kind: type[P]) -> P:
    """Return the context of a cluster page; stop where there is nothing to show.

    Needs :func:`draw_header` in the same run.

    Args:
        title: Of the page.
        kind: What pages of the cluster's system work on.
    """
    config, choice = _drawn(title)
    if choice.stored is None:
        no_snapshot(config, choice)
        st.stop()
    note_opened(config, state.page())
    return _page(kind, config, choice, choice.stored)


@dataclass(frozen=True, eq=False)
class FleetContext:
    """Context of a page over every cluster.

    Attributes:
        config: The configuration.
        choice: What the header says.
        page: The chosen cluster and its snapshot; ``None``: it has no snapshot.
        now: When the page was drawn.
    """

    config: Config
    choice: Choice
    page: AnyPage | None
    now: datetime


def open_fleet(title: str, *, needs_snapshot: bool = True) -> FleetContext:
    """Return the context of a page over every cluster.

    Needs :func:`draw_header` in the same run.

    Args:
        title: Of the page.
        needs_snapshot: Stop where no cluster has one.
    """
    config, choice = _drawn(title)
    stored = choice.stored
    kind = system_of(choice.cluster.kind).page
    has_none = stored is None and needs_snapshot
    if has_none and not any(one.latest for one in saved_by_cluster(config).values()):
        no_snapshot(config, choice)
        st.stop()
    return FleetContext(
        config=config,
        choice=choice,
        page=_page(kind, config, choice, stored) if stored else None,
        now=services.now(),
    )


def open_journal(title: str) -> Config:
    """Return the configuration for a page that reads the journal and needs no snapshot.

    Needs :func:`draw_header` in the same run.
    """
    config, _ = _drawn(title)
    return config


def open_history(title: str) -> tuple[Config, Choice]:
    """Return the choice in the header for a page that reads the history and needs no snapshot.

    Needs :func:`draw_header` in the same run.
    """
    return _drawn(title)


def _page(kind: type[P], config: Config, choice: Choice, stored: CachedSnapshot) -> P:
    reading = kind.read(stored)
    try:
        reading.snapshot  # noqa: B018  # read here, so that a damaged one is reported in one place
    except SnapshotError as error:
        words.failed(error, what="Could not read this snapshot")
        st.stop()
    return kind(
        config=config,
        cluster=choice.cluster,
        saved=choice.saved,
        stored=stored,
        reading=reading,
        is_past=choice.is_past,
        now=services.now(),
    )


def saved_by_cluster(config: Config) -> dict[str, SavedSnapshots]:
    """Return the saved snapshots of every configured cluster."""
    snapshot_store = services.snapshot_store(config)
    return {
        cluster.name: saved_snapshots(snapshot_store, cluster.name) for cluster in config.clusters
    }


def broker_link(broker: str) -> None:
    """Open the broker's page."""
    state.go("broker", broker=broker)


def bundle_link(bundle: str) -> None:
    """Open the bundle's page."""
    state.go("bundle", bundle=bundle)


def unload_link(bundles: list[str]) -> None:
    """Open the unload preview of these bundles."""
    state.go("unload", bundles=bundles)
