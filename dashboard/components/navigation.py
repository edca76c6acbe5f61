"""The navigation: entries grouped by job, with counts; and the row of pages under a title."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.errors import OpsError, SnapshotError
from dashboard import services, state
from dashboard.components.systems import system_of
from dashboard.presenters.finding_counts import Counts, badge_of, describe_count
from dashboard.queries import access
from dashboard.queries.background import BackgroundResults
from dashboard.queries.snapshots import saved_snapshots
from dashboard.services import alerts
from dashboard.sitemap import ENTRIES, KINDS, SECTIONS, PageEntry, family_of, top_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.alerts.model import Severity
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config

ROOT_PATH: Final = "home"
"""The default page is served at the root only; its own name is left to a second, hidden entry, so
that the address of every page is its name."""

RUNS: Final = "activity"
"""The entry that counts runs in progress."""
ALERTS: Final = "alerts"
"""The entry that counts alerts that fire and are not silenced."""
_SEVERITY_TONES: Final[Mapping[Severity, str]] = {
    "critical": "red",
    "warning": "orange",
    "info": "blue",
}

_FIRST: Final = next(iter(ENTRIES.values()))
_SECOND_FIRST: Final = replace(_FIRST, answers="", parent=_FIRST.name)
"""The first page under its own name, which is not in the navigation."""
_RECOUNT: Final = timedelta(minutes=5)
"""Findings of clusters that are not looked at are counted that seldom."""


@dataclass(frozen=True)
class _Countable:
    kind: str
    stored: CachedSnapshot
    config: Config = field(compare=False, repr=False)


def _count(countable: _Countable) -> Counts:
    try:
        return system_of(countable.kind).count_findings(countable.config, countable.stored)
    except SnapshotError:
        return {}  # the page itself says why


_counted = BackgroundResults(_count, max_entries=512, max_waiting=64)
_known: Final[dict[tuple[str, str], tuple[datetime, Counts]]] = {}
"""By directory and cluster: the newest counts, and of which snapshot's time they are."""


def pages() -> dict[str, list[st.Page]]:
    """Return every page by section, for :func:`streamlit.navigation`.

    Pages of a system of which no cluster is configured are not in the navigation, but open.
    """
    counts, kinds, badges = _state_of_fleet()
    offered = {
        head: [
            _page(entry, kinds, badges.get(entry.name) or _finding_badge(entry, counts))
            for entry in entries
        ]
        for head, entries in SECTIONS.items()
    }
    next(iter(offered.values())).append(_page(_SECOND_FIRST, kinds, ("", "")))
    return offered


_Badge = tuple[str, str]
"""Markdown after the title of an entry, and what it counts; both empty: nothing to count."""


def _state_of_fleet() -> tuple[Counts, tuple[str, ...], Mapping[str, _Badge]]:
    """Return the findings by page, the kinds of the configured clusters, and other badges."""
    try:
        config = access.page_config()
    except OpsError:
        return {}, KINDS, {}  # the page itself says why
    kinds = tuple({cluster.kind for cluster in config.clusters}) or KINDS
    if state.is_past():  # what is counted now is not of that time
        return {}, kinds, {}
    badges = {}
    try:
        running = sum(len(services.open_views(config, cluster.name)) for cluster in config.clusters)
        if running:
            badges[RUNS] = f" :blue-badge[{running}]", f"{running} in progress"
        badges[ALERTS] = firing_badge(Counter(one.severity for one in alerts.firing(config)))
    except OpsError:
        pass  # the header says why
    return _counts(config), kinds, badges


def firing_badge(firing: Counter[Severity]) -> _Badge:
    """Return the badge of the alerts that fire, in the colour of the most urgent.

    Args:
        firing: How many there are of each severity.
    """
    counted = [tone for tone in _SEVERITY_TONES if firing[tone]]
    if not counted:
        return "", ""
    about = ", ".join(f"{firing[one]:,} {one}" for one in counted)
    return f" :{_SEVERITY_TONES[counted[0]]}-badge[{firing.total():,}]", f"Firing: {about}."


def _finding_badge(entry: PageEntry, counts: Counts) -> _Badge:
    """Return the badge of the findings of an entry."""
    count = _count_of(entry, counts)
    return badge_of(count), describe_count(count)


def _counts(config: Config) -> Counts:
    """Return the findings by page: of every cluster on the first page, else of the chosen one."""
    total: dict[str, Counter[str]] = {}
    # the navigation is drawn before the page, which notes the cluster of its address
    named = state.text(state.CLUSTER)
    opened = {one.kind: named for one in config.clusters if one.name == named}
    for cluster in config.clusters:
        kind = cluster.kind
        chosen = opened.get(kind) or state.last_of_kind(kind) or _first_of(config, cluster)
        is_chosen = cluster.name == chosen
        newest_counts = _newest_counts(config, cluster, is_chosen=is_chosen)
        for page, count in newest_counts.items():
            if is_chosen or page == _FIRST.name:
                total[page] = total.get(page, Counter()) + count
    return total


def _first_of(config: Config, cluster: Cluster) -> str:
    return next(one.name for one in config.clusters if one.kind == cluster.kind)


def _newest_counts(config: Config, cluster: Cluster, *, is_chosen: bool) -> Counts:
    """Return the newest counts that are there; newer ones are computed in the background."""
    snapshot_store = services.snapshot_store(config)
    latest = saved_snapshots(snapshot_store, cluster.name).latest
    if latest is None:
        return {}
    key = (str(snapshot_store.root), cluster.name)
    counted_at, counts = _known.get(key, (None, {}))
    if counted_at and not is_chosen and latest.taken_at - counted_at < _RECOUNT:
        return counts
    try:
        found = _counted(_Countable(cluster.kind, latest, config))
    except OpsError:
        return {}  # the log has the details
    if found is None:
        return counts
    _known[key] = (latest.taken_at, found)
    return found


def _count_of(entry: PageEntry, counts: Counts) -> Counter[str]:
    """Return the findings of an entry of the navigation and of the pages under it."""
    under = (one.name for one in ENTRIES.values() if one.parent == entry.name)
    return sum((counts.get(name, Counter()) for name in (entry.name, *under)), Counter())


def _page(entry: PageEntry, kinds: tuple[str, ...], counted: _Badge) -> st.Page:
    """Return a page of the navigation, or one that only links open.

    Streamlit finds the file and the icon of each page again; every run needs its own, as it notes
    in it which one is open.
    """
    is_hidden = bool(entry.parent) or bool(entry.kind and entry.kind not in kinds)
    if (context := get_script_run_ctx(suppress_warning=True)) is None:
        return _new_page(entry, counted, is_hidden=is_hidden)
    folder = context.pages_manager.main_script_parent
    return copy(_known_page(entry, counted, folder, is_hidden=is_hidden))


@lru_cache(maxsize=512)
def _known_page(entry: PageEntry, counted: _Badge, folder: Path, *, is_hidden: bool) -> st.Page:  # noqa: ARG001  # key of the cache
    return _new_page(entry, counted, is_hidden=is_hidden)


def _new_page(entry: PageEntry, counted: _Badge, *, is_hidden: bool) -> st.Page:
    if is_hidden:
        return st.Page(
            entry.file,
            title=entry.title,
            url_path=entry.name,
            help=entry.answers or None,
            visibility="hidden",
        )
    badge, about = counted
    is_first = entry is _FIRST
    return st.Page(
        entry.file,
        title=entry.title + badge,
        icon=f":material/{entry.icon}:",
        url_path=ROOT_PATH if is_first else entry.name,
        default=is_first,
        help=f"{entry.answers} {about}".strip(),
    )


def mark_chosen(page: str) -> None:
    """Mark the entry of the navigation under which a page is reached.

    Streamlit marks only the entry whose page is open.

    Args:
        page: Its name.
    """
    top = top_of(page)
    if page == top.name and page != _FIRST.name:
        return
    end = "/" if top is _FIRST else f"/{top.name}"
    st.html(
        f'<style>a[data-testid="stSidebarNavLink"][href$="{end}"] {{ font-weight: 600; '
        "background-color: rgba(128, 140, 150, 0.22); }</style>"
    )


def draw_row(page: str) -> None:
    """Draw the links to the pages that share an entry of the navigation, the open one marked.

    Args:
        page: Its name.
    """
    family = family_of(page)
    if not family:
        return
    params = {key: st.query_params[key] for key in state.SHARED if key in st.query_params}
    with st.container(key="subpages", horizontal=True, gap="small", width="content"):
        for entry in family:
            is_back = entry is family[0] and not ENTRIES[page].answers
            st.page_link(
                entry.file,
                label=entry.title,
                icon=":material/arrow_back:" if is_back else None,
                help=entry.answers or None,
                query_params=params,
            )
