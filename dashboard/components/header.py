"""The header: which cluster, which moment, how fresh and how whole; search and problems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.actions.preconditions import read_only_refusal
from core.errors import SnapshotError, UnknownNameError
from core.snapshot import Manifest
from dashboard import services, state
from dashboard.components import labels, palette, time_control, unknown_params, words
from dashboard.components.activity import draw_activity, is_busy_cluster
from dashboard.components.systems import system_of
from dashboard.presenters import freshness
from dashboard.presenters.applying import describe
from dashboard.queries.snapshots import SavedSnapshots, collector_status, saved_snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config

REFRESH_S: Final = {"off": None, "5 s": 5, "15 s": 15, "60 s": 60}
RUNNING_S: Final = 2
"""How often the header looks while a run is in progress."""

_SELECTOR_PX: Final = 192
BADGES_PX: Final = 440
"""Next to the pickers on a wide window, above the buttons on a narrow one."""
PROBLEMS_PX: Final = 85
"""What problems take more."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Choice in the header's pickers.

    Attributes:
        cluster: Chosen cluster.
        saved: Its saved snapshots.
        stored: Chosen snapshot; ``None`` when none is saved.
        is_past: A saved one was chosen by its time.
    """

    cluster: Cluster
    saved: SavedSnapshots
    stored: CachedSnapshot | None
    is_past: bool


def render_header(
    config: Config, offered: Sequence[Cluster], listed: Sequence[Cluster] | None = None
) -> Choice:
    """Draw the header and return the choice.

    Args:
        config: The configuration.
        offered: The clusters that the page may be about, one at least.
        listed: The clusters in the selector: these and those of other kinds, whose selection opens
            the overview of their kind. ``None``: those that are offered.
    """
    by_name = {cluster.name: cluster for cluster in offered}
    others = {one.name: one for one in listed or () if one.name not in by_name}
    _check_cluster(config)
    wanted = _wanted(by_name)
    key = "header" if wanted.environment == "demo" else f"header-{wanted.environment}"
    bar = st.container(key=key, horizontal=True, vertical_alignment="center", gap="small")
    with bar:
        name = st.selectbox(
            "Cluster",
            [one.name for one in listed or offered],
            key=state.CLUSTER,
            format_func=_labels(config.clusters).__getitem__,
            on_change=_open_overview,
            args=(others,),
            label_visibility="collapsed",
            width=_SELECTOR_PX,
        )
        cluster = by_name.get(name or "", wanted)
        state.note_cluster(cluster.kind, cluster.name)
        state.keep_in_address(state.CLUSTER, cluster.name, default=offered[0].name)
        saved = saved_snapshots(services.snapshot_store(config), cluster.name)
        badges = st.container(
            key="badges",
            horizontal=True,
            vertical_alignment="center",
            gap="xsmall",
            width=_badges_px(cluster, saved),
        )
        st.space("stretch")
        saved, stored, is_past = time_control.pick_time(config, cluster, saved)
        every = _pick_refresh(is_past=is_past)
        palette.draw(config, cluster, stored)
    choice = Choice(cluster, saved, stored, is_past)
    labels.note(cluster, stored)
    with badges:
        _badges(config, choice, every)
    if stored is not None and is_past:
        time_control.draw_bar(config, cluster, saved, stored)
    unknown_params.draw(state.CLUSTER, cluster.name)
    unknown_params.draw(state.AT, state.text(state.AT))
    return choice


def _labels(clusters: Sequence[Cluster]) -> dict[str, str]:
    """Return the labels of clusters: their names, with the kind if there are several kinds."""
    has_kinds = len({one.kind for one in clusters}) > 1
    return {
        one.name: f"{one.name} · {one.kind.capitalize()}" if has_kinds else one.name
        for one in clusters
    }


def _open_overview(others: Mapping[str, Cluster]) -> None:
    """Open the overview of the selected cluster, if the page is not about clusters of its kind."""
    cluster = others.get(str(st.session_state[state.CLUSTER]))
    if cluster is not None:
        state.go(system_of(cluster.kind).finding_links.overview, cluster=cluster.name)


def _check_cluster(config: Config) -> None:
    """Report a cluster in the address that the configuration does not have."""
    known = [cluster.name for cluster in config.clusters]
    named = st.query_params.get(state.CLUSTER)
    if named and named not in known:
        unknown_params.report(state.CLUSTER, UnknownNameError.of("cluster", named, known))


def _badges_px(cluster: Cluster, saved: SavedSnapshots) -> int:
    """Return the width of the badges; the elements left of them keep their place during a run."""
    manifest = _manifest(Choice(cluster, saved, saved.latest, is_past=False))
    return BADGES_PX + (PROBLEMS_PX if manifest is not None and manifest.problems else 0)


def _wanted(by_name: Mapping[str, Cluster]) -> Cluster:
    """Return the cluster to show: the address's, else the last one of its kind, else the first."""
    first = next(iter(by_name.values()))
    named = state.from_address(state.CLUSTER, by_name)
    name = next((one for one in (named, state.last_of_kind(first.kind)) if one in by_name), "")
    wanted = by_name.get(name, first)
    if named != wanted.name:  # none yet, or of the other system, from a page of that one
        st.session_state[state.CLUSTER] = wanted.name
    return wanted


def _pick_refresh(*, is_past: bool) -> int | None:
    """Draw the refresh interval of the session; an address may set it, no page writes it again."""
    state.from_address(state.REFRESH, REFRESH_S)
    text = st.selectbox(
        "Refresh",
        list(REFRESH_S),
        index=1,
        key=state.REFRESH,
        on_change=_note_refresh,
        label_visibility="collapsed",
        width=92,
        help="A past snapshot does not refresh."
        if is_past
        else "Interval at which the page checks for a new snapshot",
        disabled=is_past,
        icon=":material/autorenew:",
    )
    state.follow_in_address(state.REFRESH, text or "off")
    return REFRESH_S.get(text or "off")


def _note_refresh() -> None:
    """Write the interval that was picked into the address."""
    st.query_params[state.REFRESH] = st.session_state[state.REFRESH]


def _badges(config: Config, choice: Choice, every: int | None) -> None:
    words.badge(freshness.environment_badge(choice.cluster.environment))
    manifest = _manifest(choice)
    if manifest is not None:
        assert choice.stored is not None  # noqa: S101  # a manifest is a snapshot's
        for number, badge in enumerate(
            system_of(choice.cluster.kind).badges(manifest, choice.stored)
        ):
            is_news = badge.tone != "gray"  # the rest has no room in a narrow window
            with st.container(key=f"{'news' if is_news else 'calm'}_{number}", width="content"):
                words.badge(badge)
        item = freshness.problems_badge(manifest)
        if manifest.problems and st.button(
            item.text, icon=item.icon, type="tertiary", help=item.help, key="_problems_button"
        ):
            problems_drawer(manifest)
    if every is not None and is_busy_cluster(config, choice.cluster):
        every = min(every, RUNNING_S)
    watch = partial(_watch, config, choice)
    if choice.is_past:
        watch()
    else:
        st.fragment(watch, run_every=state.ticking(every))()


def _manifest(choice: Choice) -> Manifest | None:
    """The chosen snapshot's manifest; ``None`` without one, or when it is damaged."""
    if choice.stored is None:
        return None
    try:
        reading = system_of(choice.cluster.kind).page.read(choice.stored)
        manifest: Manifest = reading.snapshot.manifest
    except SnapshotError:
        return None  # the page itself says why
    return manifest


def _watch(config: Config, choice: Choice) -> None:
    """Draw the parts that change by themselves; rerun the page when there is a newer snapshot."""
    state.stay()
    stored, cluster = choice.stored, choice.cluster
    newest = saved_snapshots(services.snapshot_store(config), cluster.name).latest
    is_newer = stored is not None and newest is not None and newest.taken_at > stored.taken_at
    if is_newer and not choice.is_past and not state.is_busy():
        st.rerun()
    with st.container(  # one that never wraps: what has no room stands whole in the next line
        key="header_live",
        horizontal=True,
        vertical_alignment="center",
        gap="xsmall",
        width="content",
    ):
        manifest = _manifest(choice)
        if stored is not None and manifest is not None:
            _draw_freshness(config, choice, manifest)
        elif cluster.read_only:
            words.badge(freshness.read_only_badge(describe(read_only_refusal(cluster.name))))
        draw_activity(config, cluster)


def _draw_freshness(config: Config, choice: Choice, manifest: Manifest) -> None:
    name = choice.cluster.name
    status = collector_status(services.collector_status_path(config, name))
    now, every_s = services.now(), config.collect_every_s
    read_only = describe(read_only_refusal(name)) if choice.cluster.read_only else ""
    if choice.is_past and read_only:  # the banner says the rest
        words.badge(freshness.read_only_badge(read_only))
    words.badge(
        freshness.freshness_badge(
            manifest,
            now=now,
            every_s=every_s,
            status=status,
            is_past=choice.is_past,
            why_read_only=read_only,
        )
    )


def _closed() -> None:
    state.set_dialog_open(is_open=False)


def problems_drawer(manifest: Manifest) -> None:
    """Open the drawer with everything that could not be read."""
    state.set_dialog_open(is_open=True)
    st.dialog("Problems", width="medium", position="right", on_dismiss=_closed)(
        partial(_problems_body, manifest)
    )()


def _problems_body(manifest: Manifest, limit: int = 100) -> None:
    icons = {"error": ":material/error:", "warning": ":material/warning:"}
    for problem in manifest.problems[:limit]:
        with st.container(border=True, gap="xsmall"):
            st.markdown(
                f"{icons.get(problem.severity, ':material/info:')} {words.plain(problem.what)}"
            )
            if problem.done:
                st.markdown(words.plain(problem.done))
            st.caption(f"{words.plain(problem.place)} · {words.plain(problem.code)}")
    if len(manifest.problems) > limit:
        st.caption(f"{len(manifest.problems) - limit:,} more in the snapshot's manifest.")
    for sentence in manifest.unavailable:
        st.info(words.plain(sentence), icon=":material/block:")
