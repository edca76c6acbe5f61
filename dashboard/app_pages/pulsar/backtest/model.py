"""Candidates of a back-test on a Pulsar cluster: strategies, settings with values, presets."""

from __future__ import annotations

from typing import Final

from core.history.backtest.model import NO_SHEDDING, OPTIMIZER, RECORDED
from core.history.backtest.pulsar.system import PULSAR
from core.history.backtest.system import AnyBacktest
from core.pulsar.placement import STRATEGY_NAMES
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings, known_setting
from core.pulsar.shedding import SHEDDING_STRATEGIES, SHEDDING_STRATEGY_NAMES, strategies_run_by
from core.snapshot import LoadManager
from dashboard.app_pages.backtest.model import parsed, text_of
from dashboard.app_pages.backtest.system import GridPreset
from dashboard.presenters.pulsar.sliders import Slider, sliders

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"
SHEDDINGS: Final = (RECORDED, *SHEDDING_STRATEGY_NAMES, OPTIMIZER, NO_SHEDDING)
PLACEMENTS: Final = (RECORDED, *STRATEGY_NAMES)

_ADJUSTABLE: Final = tuple(
    dict.fromkeys(key for strategy in SHEDDING_STRATEGIES for key in strategy.adjustable)
)
_EXTENSIBLE_ONLY: Final = tuple(one.name for one in strategies_run_by("extensible"))
_SHARE: Final = "maxUnloadPercentage"
_COMPARING: Final = tuple(one.name for one in SHEDDING_STRATEGIES if _SHARE in one.adjustable)
_STEPS: Final = (0.25, 0.5, 1.0, 1.5, 2.0)
_KEYS: Final = (*_ADJUSTABLE, *(key for key in SETTING_BY_KEY if key not in _ADJUSTABLE))


class PulsarGrid:
    """Pulsar; see :class:`dashboard.app_pages.backtest.system.GridSystem`."""

    system: AnyBacktest = PULSAR
    strategy = "shedding strategy"
    strategies_field = "shedding"
    values_field = "settings"
    placement: tuple[str, ...] = (RECORDED,)
    # those that decide shedding first; the strategies are chosen by name
    keys = tuple(key for key in _KEYS if key not in (SHEDDING_KEY, PLACEMENT_KEY))

    def describe(self, key: str) -> str:
        """Return the description of a setting."""
        setting = SETTING_BY_KEY[key]
        return setting.label if key in _ADJUSTABLE else setting.meaning

    def typed(self, key: str, text: str) -> object:
        """Return a value of the setting's type."""
        typed = typed_value(known_setting(key), parsed(text))
        return list(typed) if isinstance(typed, tuple) else typed


GRID: Final = PulsarGrid()


def compared_by_default(manager: LoadManager) -> tuple[str, ...]:
    """Return the default candidates of a form: every strategy that fits the brokers.

    The optimizer's plans are one of them. The recorded settings are replayed in every back-test.

    Args:
        manager: The brokers' load manager.
    """
    return (*(one.name for one in strategies_run_by(manager)), OPTIMIZER, NO_SHEDDING)


def active_strategy(settings: EffectiveSettings) -> str:
    """Return the class name of the cluster's own shedding strategy; another one: ours to offer."""
    name = settings.text(SHEDDING_KEY).rpartition(".")[2]
    return name if name in SHEDDINGS else SHEDDINGS[1]


def describe_strategy(name: str, settings: EffectiveSettings, key: str) -> str:
    """Return the name of a strategy for people, and which one was recorded."""
    if name == NO_SHEDDING:
        return "no shedding"
    if name == RECORDED and key == SHEDDING_KEY and settings.shedding_off:
        return f"as recorded ({settings.shedding_off[0]}=false)"
    if name == RECORDED:
        return f"as recorded ({settings.text(key).rpartition('.')[2]})"
    return name


def suggestions(key: str, settings: EffectiveSettings) -> tuple[str, ...]:
    """Return values of a setting worth trying as texts, the active one among them."""
    setting = SETTING_BY_KEY[key]
    if setting.kind == "bool":
        return ("true", "false")
    if setting.kind in ("text", "names"):
        return (text_of(settings.value(key)),)
    slider = Slider(setting)
    present = slider.present(settings)
    tried = {present, *(_within(slider, present * step) for step in _STEPS)}
    if present == 0:
        tried |= {
            _within(slider, slider.low + (slider.high - slider.low) * step / 4) for step in _STEPS
        }
    return tuple(text_of(value) for value in sorted(tried))


def _within(slider: Slider, value: float) -> bool | int | float:
    """Return a value on the slider's grid, within its span."""
    step = slider.step or 1.0
    rounded = round(value / step) * step if value >= step else value
    held = min(rounded, slider.high) if slider.high else rounded
    return slider.number(round(max(held, slider.low), 6))


def presets(effective: str, *, is_extensible: bool = False) -> tuple[GridPreset, ...]:
    """Return the preset grids that can be simulated on such a record.

    Args:
        effective: Class name of the cluster's own shedding strategy; empty: unknown.
        is_extensible: The brokers run the extensible load manager.
    """
    sheddings = tuple(one for one in SHEDDINGS if is_extensible or one not in _EXTENSIBLE_ONLY)
    offered = sliders(effective)
    found = [
        GridPreset(
            title="Every strategy",
            help="All shedding strategies with the cluster's settings, the optimizer, and no "
            "shedding.",
            shedding=sheddings,
            placement=(RECORDED,),
        ),
        GridPreset(
            title="Every pair",
            help="Each shedding strategy with each placement strategy.",
            shedding=tuple(one for one in sheddings if one != RECORDED),
            placement=PLACEMENTS,
        ),
    ]
    if offered:
        found.insert(
            0,
            GridPreset(
                title=f"Settings of {effective}",
                help="Active strategy with several values of "
                f"{' and '.join(one.key for one in offered[:2])}.",
                shedding=(effective, NO_SHEDDING),
                placement=(RECORDED,),
                keys=tuple(slider.key for slider in offered[:2]),
            ),
        )
    found.append(
        GridPreset(
            title="Fewer moves",
            help="Relative-load strategies with several shares of the gap per round.",
            shedding=tuple(dict.fromkeys((effective or RECORDED, *_COMPARING))),
            placement=(RECORDED,),
            keys=(_SHARE,),
        )
    )
    return tuple(found)
