"""The plan of the settings that were changed on the Rebalance page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from core.errors import OpsError
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding.registry import upstream_class
from dashboard.components.pulsar import moves_plan
from dashboard.presenters.pulsar.settings import wanted_words
from dashboard.queries.pulsar import explanations

if TYPE_CHECKING:
    from dashboard.app_pages.pulsar.rebalance.queries import StrategyCandidate
    from dashboard.components.pulsar.applying import PulsarDialog
    from dashboard.components.pulsar.page import PulsarPage

_SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"


def dialog_of(
    page: PulsarPage, chosen: StrategyCandidate | None, effective: str
) -> PulsarDialog | None:
    """Return the plan that sets the changed settings; ``None`` if a plan can set none of them.

    Args:
        chosen: The chosen strategy with what is assumed for it; ``None``: it is the optimizer.
        effective: The cluster's strategy; the chosen one is set with its settings.
    """
    if chosen is None:
        return None
    wanted: dict[str, Any] = {
        key: upstream_class(str(value)) if key == _PLACEMENT else value
        for key, value in chosen.assumed
    }
    if chosen.strategy != effective:
        wanted[_SHEDDER] = upstream_class(chosen.strategy)
    dynamic = {key: value for key, value in wanted.items() if SETTING_BY_KEY[key].is_dynamic}
    if not dynamic:
        return None
    request = explanations.SettingRequest(stored=page.stored, wanted=wanted_words(dynamic))
    try:
        plan, preview = explanations.setting_preview(request)
    except OpsError:
        return None  # Settings says why such a value is refused
    return moves_plan.dialog_of(page, plan, preview) if plan.steps else None
