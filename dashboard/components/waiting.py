"""The states in which there is nothing to show yet: each says why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from dashboard import services, state
from dashboard.components import words
from dashboard.components.systems import system_of
from dashboard.presenters.freshness import last_error
from dashboard.queries.snapshots import collector_status, saved_snapshots

if TYPE_CHECKING:
    from dashboard.components.header import Choice
    from dashboard.services import Config

_LOOK_EVERY_S = 2.0
_LOOK_FOR_RESULT_EVERY_S = 1.0


def until(is_there: Callable[[], bool], sentence: str) -> None:
    """Render the computation in the background; rerun the page when it is done.

    Args:
        is_there: Returns whether it is; never waits.
        sentence: What is being computed.
    """
    look = partial(_look_for_result, is_there, sentence)
    st.fragment(look, run_every=state.ticking(_LOOK_FOR_RESULT_EVERY_S))()


def _look_for_result(is_there: Callable[[], bool], sentence: str) -> None:
    st.caption(f":material/hourglass_top: {sentence}")
    if is_there() and not state.is_busy():
        st.rerun()


def no_clusters(config: Config, kinds: Sequence[str]) -> None:
    """Render how to configure a cluster of a kind that the page needs."""
    kind = kinds[0]
    if config.clusters:
        words.answer(f"No {kind.capitalize()} cluster is configured.")
        st.markdown(
            f"Add a cluster to `{config.file or 'trimtab.toml'}`. The pages reload it "
            "automatically:"
        )
    else:
        words.answer("No cluster is configured.")
        st.markdown(
            "Add a cluster to `trimtab.toml`, then run `trimtab dashboard --config trimtab.toml`:"
        )
    st.code(system_of(kind).example, language="toml")
    st.markdown("To try Trimtab without a cluster, run `trimtab demo`.")


def no_snapshot(config: Config, choice: Choice, *, is_answer: bool = True) -> None:
    """Render why there is no snapshot yet; show the page as soon as there is one.

    Args:
        config: The configuration.
        choice: What the header says.
        is_answer: The page has no other answer.
    """
    draw_text = words.answer if is_answer else words.section
    name = choice.cluster.name
    status = collector_status(services.collector_status_path(config, name))
    error = last_error(status)
    if error:
        draw_text(f"No data from {name} yet.")
        st.error(words.plain(error), title="Last collector error", icon=":material/link_off:")
        st.markdown("To check the addresses of the cluster:")
        st.code(f"trimtab check{services.config_option(config)}", language="bash")
    elif status:
        draw_text(f"Reading the first snapshot of {name}.")
        st.caption("This page updates automatically.")
    else:
        draw_text(f"No snapshot of {name}; no collector has run.")
        st.markdown("To read the cluster once a minute, start a collector:")
        st.code(f"trimtab collect {name}{services.config_option(config)}", language="bash")
    _look_for_snapshot(config, [name])


def no_snapshots(
    config: Config, choice: Choice, unread: Sequence[str], *, is_answer: bool = True
) -> None:
    """Render why clusters have no snapshot yet: each with the last error of its collector.

    Args:
        config: The configuration.
        choice: What the header says.
        unread: Names of the clusters without a snapshot.
        is_answer: The page has no other answer.
    """
    chosen = choice.cluster.name
    errors = {name: error for name in unread if (error := _last_error(config, name))}
    if not errors.keys() - {chosen}:
        if chosen in unread:
            no_snapshot(config, choice, is_answer=is_answer)
        return
    draw_text = words.answer if is_answer else words.section
    which = next(iter(errors)) if len(errors) == 1 else f"{len(errors):,} clusters"
    draw_text(f"No data from {which} yet.")
    for name, error in errors.items():
        st.error(words.plain(error), title=words.plain(name), icon=":material/link_off:")
    st.markdown("To check the addresses of the clusters:")
    st.code(f"trimtab check{services.config_option(config)}", language="bash")
    if chosen in unread and chosen not in errors:
        no_snapshot(config, choice, is_answer=False)
    else:
        _look_for_snapshot(config, unread)


def _last_error(config: Config, cluster: str) -> str:
    return last_error(collector_status(services.collector_status_path(config, cluster)))


def _look_for_snapshot(config: Config, clusters: Sequence[str]) -> None:
    st.fragment(partial(_look, config, clusters), run_every=_LOOK_EVERY_S)()


def _look(config: Config, clusters: Sequence[str]) -> None:
    st.caption("Checks for a snapshot every 2 s.")
    store = services.snapshot_store(config)
    if any(saved_snapshots(store, name).latest is not None for name in clusters):
        st.rerun()
