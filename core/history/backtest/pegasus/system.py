"""How clusters of Pegasus are back-tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.history.backtest.model import TARGETS, Window
from core.history.backtest.pegasus.advice import fix_of, recommended_switches
from core.history.backtest.pegasus.prevention import converged, preventing
from core.history.backtest.pegasus.reading import tape_of_history
from core.history.backtest.pegasus.rules import LEVEL, pegasus_candidates
from core.history.backtest.pegasus.tape import PegasusTape
from core.history.backtest.pegasus.units import run_pegasus_unit
from core.history.backtest.setting_text import setting_text
from core.history.backtest.system import BacktestSystem
from core.history.backtest.wording import Wording
from core.history.store.store import HistoryStore
from core.pegasus.levels import parse_level
from core.pegasus.plan.draft import Draft
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot

_CLEAR: Final = "clear"


def _load(store: HistoryStore, cluster: str, window: Window, minute_s: float) -> PegasusTape:
    return tape_of_history(store, cluster, window.start, window.end, minute_s=minute_s)


def _plan(
    snapshot: PegasusSnapshot,
    wanted: Mapping[str, Any],
    _notes: Sequence[Diagnostic],
    terms: PlanOptions,
) -> Plan:
    draft = Draft(snapshot, terms)
    for key, value in wanted.items():
        if key == LEVEL:
            draft.set_level(parse_level(str(value)), is_restored=False)
        else:
            draft.set_setting(key, setting_text(value) or _CLEAR, server=None, is_restored=False)
    draft.note("info", "not_persisted", "It is lost when the leading meta server restarts.")
    return draft.seal()


PEGASUS: Final[BacktestSystem[PegasusSnapshot, PegasusTape]] = BacktestSystem(
    name="pegasus",
    title="Pegasus",
    nouns=Wording(server="node", moves="moves", subject="partitions"),
    target=TARGETS["pegasus"],
    fields=("policies", "switches"),
    candidates=pegasus_candidates,
    load=_load,
    simulate=run_pegasus_unit,
    recommended=recommended_switches,
    plan=_plan,  # its settings are all set at run time: nothing is left to say
    converged=converged,
    fix=fix_of,
    preventing=preventing,
)
