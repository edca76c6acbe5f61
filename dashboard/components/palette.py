"""The command palette: every page, object and action from the keyboard.

It opens in the browser without a run of the page; only what is typed is sent, for the objects.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError, SnapshotError
from dashboard import legible, services, state
from dashboard.components import fleet_views, labels
from dashboard.components.systems import SYSTEMS, system_of
from dashboard.presenters.search import Hit
from dashboard.queries import runs
from dashboard.queries.snapshots import saved_snapshots
from dashboard.sitemap import ENTRIES, KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config

MAX_HITS: Final = 8
MAX_OTHERS: Final = 8
"""Clusters that are searched where the chosen one has nothing of the name."""
_KEY: Final = "palette"
_OPENED: Final = "_palette_opened"
_ITEMS: Final = "_palette_items"
_ICONS: Final = {
    "cluster": "hub",
    "view": "bookmarks",
    "theme": "contrast",
    "broker": "dns",
    "namespace": "folder",
    "bundle": "donut_small",
    "topic": "topic",
    "policy": "fence",
    "setting": "tune",
    "node": "dns",
    "table": "table_rows",
    "partition": "donut_small",
    "run": "history",
    "action": "bolt",
}
SHORTCUTS: Final = {
    "Ctrl+K, /": "Search pages, objects, actions and themes",
    "\u2191 \u2193, Enter": "Choose and open",
    "Escape": "Close",
    "Enter, Space": "In a table: activate a button, select a row",
    "P": "Preview the plan (pages with a plan)",
    "J, K": "Previous or next minute (point in time)",
    "L": "Back to live (point in time)",
    "?": "Show shortcuts",
    "R": "Refresh the page",
}

_FOLDER: Final = Path(__file__).parent
_HTML: Final = f"""
<button id="open" type="button" aria-haspopup="dialog" aria-keyshortcuts="Control+K">
  <span class="icon" aria-hidden="true">search</span>
  <span class="label">Search</span> <kbd aria-hidden="true">Ctrl+K</kbd>
</button>
<dialog id="palette" aria-label="Search">
  <input type="text" role="combobox" aria-label="Page, object or action" aria-expanded="true"
    aria-controls="options" aria-autocomplete="list" autocomplete="off" spellcheck="false"
    placeholder="Page, object, action or theme">
  <ul id="options" role="listbox" aria-label="Results"></ul>
  <p id="none" hidden>No results</p>
</dialog>
<dialog id="shortcuts" aria-label="Keyboard shortcuts">
  <h2>Keyboard shortcuts</h2>
  <table>{
    "".join(
        f"<tr><th scope='row'>{escape(keys)}</th><td>{escape(what)}</td></tr>"
        for keys, what in SHORTCUTS.items()
    )
}</table>
  <button type="button">Close</button>
</dialog>
"""

_SCRIPTS: Final = ("history.js", "parts.js", "roles.js", "tables.js", "palette.js")
"""The last one draws the palette; the others look after the whole window."""

_PARTS: Final = (
    *("PageLink", "Metric", "ButtonGroup", "Selectbox", "Multiselect", "TextInput", "NumberInput"),
    *("Slider", "Checkbox", "DownloadButton", "Table", "Progress", "Radio"),
    *("DataFrame", "PlotlyChart", "DateTimeInput", "StreamlitSyntaxHighlighter"),
)
"""What pages are drawn with, the small ones first; Streamlit loads each when it is drawn first."""


def _script() -> str:
    folder = Path(st.__file__).parent / "static" / "static" / "js"
    parts = [path.name for name in _PARTS for path in folder.glob(f"{name}.*.js")]
    texts = ((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return "\n".join(texts).replace("__PARTS__", ", ".join(f'"{name}"' for name in parts))


_mount = st.components.v2.component(
    "trimtab_palette",
    html=_HTML,
    css=(_FOLDER / "palette.css").read_text(encoding="utf-8"),
    js=_script(),
)


def draw(config: Config, cluster: Cluster, stored: CachedSnapshot | None) -> None:
    """Draw the search button; its palette opens by the button, Ctrl+K or ``/``.

    Args:
        config: The configuration: its clusters and their pages are offered.
        cluster: The chosen one, whose objects are searched.
        stored: Its snapshot; ``None``: pages, clusters and actions alone.
    """
    st.fragment(partial(_draw, config, cluster, stored))()


def _draw(config: Config, cluster: Cluster, stored: CachedSnapshot | None) -> None:
    query = _typed()
    _mount(
        key=_KEY,
        data={
            "items": _standing_items(config),
            "query": query,
            "pages": list(ENTRIES),
            "opened": st.session_state.get(_OPENED, 0),
            "hits": [_item(hit) for hit in objects(config, cluster, stored, query)],
        },
        on_query_change=_nothing,
        on_chosen_change=partial(_open, config, cluster, stored),
        width="content",
    )


def _nothing() -> None:
    """The query is read when the fragment draws again."""


def _typed() -> str:
    held = st.session_state.get(_KEY)
    return str(held.get("query") or "") if held else ""


def _item(hit: Hit) -> dict[str, Any]:
    icon = ENTRIES[hit.page].icon if hit.kind == "page" else _ICONS[hit.kind]
    return {
        "id": hit.id,
        "name": legible.sentence(legible.labeled(hit.name, is_full=True)),
        "detail": legible.sentence(legible.labeled(hit.detail)),
        "kind": hit.kind,
        "icon": icon,
    }


def _standing_items(config: Config) -> str:
    """Return the entries without a snapshot as JSON, made once for a session.

    As one text: Streamlit looks for frames in every value of a list, with every run of a page.
    """
    views, shown = tuple(fleet_views.of_person(config)), labels.current()
    known = st.session_state.get(_ITEMS)
    if known is None or known[0] is not config or known[1:3] != (views, shown):
        items = json.dumps([_item(hit) for hit in standing(config)])
        known = st.session_state[_ITEMS] = (config, views, shown, items)
    items_text: str = known[3]
    return items_text


def standing(config: Config) -> list[Hit]:
    """Return the entries without a snapshot: pages, actions and clusters."""
    kinds = {cluster.kind for cluster in config.clusters} or set(KINDS)
    pages = [
        Hit(kind="page", name=entry.title, detail=_group(entry.name), page=entry.name)
        for entry in ENTRIES.values()
        if entry.answers and (not entry.kind or entry.kind in kinds)
    ]
    actions = [hit for system in SYSTEMS if system.system.name in kinds for hit in system.actions]
    clusters = [
        Hit(
            kind="cluster",
            name=cluster.name,
            detail=" ".join((cluster.environment, cluster.group, *cluster.tags)).replace("  ", " "),
            page=system_of(cluster.kind).finding_links.overview,
            params={state.CLUSTER: cluster.name},
        )
        for cluster in config.clusters
    ]
    views = [
        Hit(
            kind="view",
            name=name,
            detail="Saved view of Fleet",
            page="fleet",
            params={fleet_views.SAVED: name},
        )
        for name in fleet_views.of_person(config)
    ]
    return [*pages, *actions, *_COMMON, *views, *clusters]


_COMMON: Final = (
    Hit(kind="action", name="Diagnose", detail="Causes of imbalance", page="diagnose"),
    Hit(kind="action", name="Undo run…", detail="Select a run", page="activity"),
    Hit(kind="action", name="Export runs…", detail="CSV or JSON", page="activity"),
    Hit(kind="action", name="Export history…", detail="CSV or JSON", page="history"),
    *(
        Hit(kind="theme", name=f"{name} theme", detail="", page="fleet")
        for name in ("Light", "Dark", "System")
    ),
)
"""The browser sets a theme by itself, by its name for Streamlit."""


def _group(page: str) -> str:
    parent = ENTRIES[page].parent
    return ENTRIES[parent].title if parent else ""


def objects(
    config: Config, cluster: Cluster, stored: CachedSnapshot | None, query: str
) -> Sequence[Hit]:
    """Return the objects and runs that a query names, at most :data:`MAX_HITS`."""
    if len(query) < 2:  # a letter alone names everything
        return ()
    found = [
        *_found(cluster, stored, query)[:MAX_HITS],
        *_labeled(cluster, stored, query),
        *_runs(config, cluster, query),
    ]
    if not found:
        store = services.snapshot_store(config)
        for other in [one for one in config.clusters if one.name != cluster.name][:MAX_OTHERS]:
            latest = saved_snapshots(store, other.name).latest
            found += (
                replace(
                    hit,
                    detail=f"{other.name} {hit.detail}".rstrip(),
                    params={**hit.params, state.CLUSTER: other.name},
                )
                for hit in _found(other, latest, query)
            )
    return found[:MAX_HITS]


def _found(cluster: Cluster, stored: CachedSnapshot | None, query: str) -> list[Hit]:
    try:
        return [] if stored is None else system_of(cluster.kind).search(stored, query)
    except SnapshotError:
        return []  # the page itself says why


def _labeled(cluster: Cluster, stored: CachedSnapshot | None, query: str) -> list[Hit]:
    """Return the brokers or nodes with a label that matches a query."""
    needle = query.lower()
    named = [one for one, label in labels.current().items() if needle in label.lower()]
    return [
        hit
        for address in named[:MAX_HITS]
        for hit in _found(cluster, stored, address)
        if hit.name == address
    ]


def _runs(config: Config, cluster: Cluster, query: str) -> list[Hit]:
    try:
        views = runs.of_cluster(config, cluster.name)
    except OpsError:
        return []  # the header says why
    needle = query.lower()
    return [
        Hit(
            kind="run",
            name=view.run_id,
            detail=view.reason,
            page="run",
            params={state.RUN: view.run_id},
        )
        for view in views
        if needle in view.run_id.lower() or needle in view.reason.lower()
    ][:MAX_HITS]


def _open(config: Config, cluster: Cluster, stored: CachedSnapshot | None) -> None:
    choice = st.session_state[_KEY].get("chosen") or {}
    if choice.get("at") == st.session_state.get(_OPENED, 0):
        return  # sent again before the browser knew
    st.session_state[_OPENED] = choice.get("at")
    offered = (*standing(config), *objects(config, cluster, stored, _typed()))
    hit = next((one for one in offered if one.id == choice.get("id")), None)
    if hit is None:
        return
    named = hit.params.get(state.CLUSTER)
    if named:
        st.session_state[state.CLUSTER] = named
    state.go(hit.page, **dict(hit.params))
