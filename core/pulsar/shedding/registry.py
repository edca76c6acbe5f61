"""Every shedding strategy there is, by the name of its upstream class."""

from __future__ import annotations

from typing import Any, Final

from core.errors import UnknownNameError
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.avg_shedder import AvgShedder
from core.pulsar.shedding.model import SheddingStrategy
from core.pulsar.shedding.overload_shedder import OverloadShedder
from core.pulsar.shedding.threshold_shedder import ThresholdShedder
from core.pulsar.shedding.transfer_shedder import TransferShedder
from core.pulsar.shedding.uniform_load_shedder import UniformLoadShedder
from core.snapshot import LoadManager

# states and configs differ by strategy: whoever takes one out of here passes back what it gave
AnyStrategy = SheddingStrategy[Any, Any]

SHEDDING_STRATEGIES: Final[tuple[AnyStrategy, ...]] = (
    ThresholdShedder(),
    OverloadShedder(),
    UniformLoadShedder(),
    AvgShedder(),
    TransferShedder(),
)
"""In the order in which people are shown them; a test holds that every module is listed."""

SHEDDING_STRATEGY_NAMES: Final = tuple(strategy.name for strategy in SHEDDING_STRATEGIES)


def strategies_run_by(load_manager: LoadManager) -> tuple[AnyStrategy, ...]:
    """Return the strategies that a load manager runs; an unknown one is taken for modular."""
    manager = "extensible" if load_manager == "extensible" else "modular"
    return tuple(strategy for strategy in SHEDDING_STRATEGIES if strategy.manager == manager)


def known_shedding_strategy(name: str) -> AnyStrategy | None:
    """Return the strategy with that class name; ``None`` if there is none."""
    simple = name.rpartition(".")[2]
    return next((strategy for strategy in SHEDDING_STRATEGIES if strategy.name == simple), None)


def upstream_class(name: str) -> str:
    """Return the class with its package; an unknown one is taken for the modular manager's.

    Args:
        name: Of a shedding or placement strategy; with its package it is returned as it is.
    """
    if "." in name:
        return name
    strategy = known_shedding_strategy(name) or SHEDDING_STRATEGIES[0]
    return f"{strategy.package}.{name}"


def find_shedding_strategy(name: str) -> AnyStrategy:
    """Return the strategy with that class name, with or without its package.

    Raises:
        UnknownNameError: There is none; the hint offers near names.
    """
    strategy = known_shedding_strategy(name)
    if strategy is not None:
        return strategy
    raise UnknownNameError.of("shedding strategy", name, SHEDDING_STRATEGY_NAMES)


def active_shedding_strategy(load_manager: LoadManager, settings: EffectiveSettings) -> AnyStrategy:
    """Return the active strategy of the cluster.

    Args:
        load_manager: Which one decides.
    Raises:
        UnknownNameError: The configured one is not known here.
    Source:
        Pulsar ``UnloadScheduler#createNamespaceUnloadStrategy``: the extensible manager falls back
        to TransferShedder from every class that is not its own, the default setting included.
    """
    if load_manager == "extensible":
        return find_shedding_strategy(TransferShedder.name)
    return find_shedding_strategy(settings.text("loadBalancerLoadSheddingStrategy"))
