"""Labels of the brokers or nodes of the chosen cluster, for everything that a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.errors import SnapshotError
from core.labels import labels_of
from dashboard import legible
from dashboard.components.systems import system_of

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster

_LABELS: Final = "_labels"


def note(cluster: Cluster, stored: CachedSnapshot | None) -> None:
    """Note the labels of a cluster for this session.

    Args:
        cluster: The chosen one.
        stored: Its snapshot; ``None``: it has none.
    """
    st.session_state[_LABELS] = _found(cluster, stored)


def current() -> Mapping[str, str]:
    """Return the labels by address for the page that is drawn; none outside of a page."""
    if get_script_run_ctx(suppress_warning=True) is None:
        return {}
    found: Mapping[str, str] = st.session_state.get(_LABELS, {})
    return found


legible.use_labels(current)


def _found(cluster: Cluster, stored: CachedSnapshot | None) -> Mapping[str, str]:
    if not cluster.labels or stored is None:
        return {}
    try:
        return _labels(cluster.kind, stored, tuple(cluster.labels.items()))
    except SnapshotError:
        return {}  # the page itself says why


@lru_cache(maxsize=32)
def _labels(
    kind: str, stored: CachedSnapshot, patterns: tuple[tuple[str, str], ...]
) -> Mapping[str, str]:
    system = system_of(kind)
    return labels_of(dict(patterns), system.system.servers(system.page.read(stored).snapshot))
