"""A queued run names the one it waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from journal_entries import NOON, chain_of, claimed, record_of, requested

from connectors.config.model import ClusterConfig, TrimtabConfig
from core.actions.describe import waits_for
from core.actions.events import RunPaused, SettingRestored, SettingSaved
from core.actions.model import RunId
from core.actions.runs import fold
from dashboard import services
from dashboard.presenters.runs import answer
from dashboard.services.run_queue import preceding_run

FIRST, SECOND = RunId("20261121-120000-00000a"), RunId("20261121-120001-00000b")
SHEDDING = "loadBalancerSheddingEnabled"


def _config(folder: Path) -> TrimtabConfig:
    cluster = ClusterConfig(name="prod", admin_urls=["http://127.0.0.1:9"])
    return TrimtabConfig(clusters=[cluster], state_dir=folder)


def test_a_run_behind_a_paused_one_says_so(tmp_path: Path) -> None:
    config = _config(tmp_path)
    journal = services.journal(config)
    for event in (requested(), claimed("w1"), RunPaused(sentence="bob paused the run.")):
        journal.append(record_of(event, run_id=FIRST, actor="w1"))
    journal.append(record_of(requested(), run_id=SECOND))
    first, second = (services.run_view(config, run_id) for run_id in (FIRST, SECOND))
    ahead = preceding_run(config, second)
    assert ahead is not None
    assert waits_for(ahead) == f"Waits for run {FIRST} (paused) on the same cluster."
    told = answer(second, NOON + timedelta(minutes=1), ahead)
    assert told == waits_for(ahead)
    assert preceding_run(config, first) is None


def test_the_first_in_line_waits_for_a_worker_only(tmp_path: Path) -> None:
    config = _config(tmp_path)
    services.journal(config).append(record_of(requested(), run_id=FIRST))
    view = services.run_view(config, FIRST)
    assert preceding_run(config, view) is None
    assert "for a worker" in answer(view, NOON)


def test_a_run_with_nothing_left_but_a_setting_says_that_it_is_being_put_back() -> None:
    view = fold(chain_of([requested(0), claimed()]))
    assert not view.putting_back
    saved = SettingSaved(key=SHEDDING, before=None, during="false")
    failed = SettingRestored(key=SHEDDING, result="failed", sentence="No broker answers.")
    events = [requested(0), claimed(), saved]
    view = fold(chain_of(events))
    assert view.putting_back == f"All steps are done; {SHEDDING} is being restored."
    view = fold(chain_of([*events, failed]))
    words = f"is being restored (attempt failed: {failed.sentence})"
    assert view.sentence == f"All steps are done; {SHEDDING} {words}"
    assert answer(view, NOON) == f"All steps are done; {SHEDDING} {words}"
    assert not replace(view, state="DONE").putting_back
