"""How clusters of Pulsar are back-tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.history.backtest.advice import recommended
from core.history.backtest.model import TARGETS, Window
from core.history.backtest.pulsar.candidates import pulsar_candidates
from core.history.backtest.pulsar.prevention import converged, fix_of, preventing
from core.history.backtest.pulsar.recorded import load_series
from core.history.backtest.pulsar.series import LoadSeries
from core.history.backtest.pulsar.units import run_unit
from core.history.backtest.setting_text import setting_text
from core.history.backtest.system import BacktestSystem
from core.history.backtest.wording import Wording
from core.history.store.store import HistoryStore
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.setting import build_setting_plan
from core.snapshot import PulsarSnapshot


def _load(store: HistoryStore, cluster: str, window: Window, minute_s: float) -> LoadSeries:
    return load_series(store, cluster, window, minute_s=minute_s)


def _plan(
    snapshot: PulsarSnapshot,
    wanted: Mapping[str, Any],
    notes: Sequence[Diagnostic],
    terms: PlanOptions,
) -> Plan:
    values = {key: setting_text(one) for key, one in wanted.items()}
    return build_setting_plan(snapshot, values, terms, notes=notes)


PULSAR: Final[BacktestSystem[PulsarSnapshot, LoadSeries]] = BacktestSystem(
    name="pulsar",
    title="Pulsar",
    nouns=Wording(server="broker", moves="unloads", subject="bundles"),
    target=TARGETS["vivo"],
    fields=("shedding", "placement", "settings"),
    candidates=pulsar_candidates,
    load=_load,
    simulate=run_unit,
    recommended=recommended,
    plan=_plan,
    converged=converged,
    fix=fix_of,
    preventing=preventing,
    breaks=("setting", "policy"),
)
