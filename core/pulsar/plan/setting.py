"""Build a plan that changes dynamic settings: brokers store anything, so it is checked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import UNSET, UnsetType

from core.errors import InputError
from core.ids import path_fault
from core.plan.model import Diagnostic, DiagnosticSeverity, Plan
from core.plan.options import PlanOptions
from core.pulsar.catalogue.shedding import SHEDDING_SETTINGS
from core.pulsar.plan.checks import Basis, check_cluster
from core.pulsar.plan.plan_factory import bare_plan, basis_of
from core.pulsar.presets import upstream_words
from core.pulsar.setting_values import is_same_setting, parse_upstream_value
from core.pulsar.settings import SETTING_BY_KEY, Setting, known_setting
from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES
from core.pulsar.split import ALGORITHMS
from core.pulsar.steps.setting import SetDynamicSetting, setting_request, setting_values
from core.schemas.pulsar import STORED_PREFIX
from core.snapshot import PulsarSnapshot
from core.units import pluralize

_SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
_SPLITTER: Final = "defaultNamespaceBundleSplitAlgorithm"
_THRESHOLDS: Final = frozenset(one.key for one in SHEDDING_SETTINGS if one.extremes is not None)
"""What shedding strategies decide by."""
_PERCENT: Final = "percent"


def build_setting_plan(
    snapshot: PulsarSnapshot,
    wanted: Mapping[str, str | None],
    terms: PlanOptions,
    notes: Iterable[Diagnostic] = (),
) -> Plan:
    """Build the plan that sets dynamic settings, in the given order.

    Args:
        snapshot: The cluster.
        wanted: Upstream key to value as brokers write it, ``None`` to remove it.
        terms: When, why and how long.
        notes: Further diagnostics.
    Raises:
        InputError: Nothing was named.
        UnknownNameError: No setting of the load balancer has that key; the hint has near ones.
    """
    if not wanted:
        raise InputError("No setting is specified.", hint="Specify one: KEY=VALUE, or --unset KEY.")
    basis = basis_of(snapshot, terms)
    found = [*check_cluster(basis), *notes]
    stored = stored_settings(snapshot)
    steps: list[SetDynamicSetting] = []
    for key, value in wanted.items():
        setting = known_setting(key)
        before = stored.get(key)
        about = list(check_setting(basis, setting, value))
        if is_same_setting(setting, before, value):
            held = "not set" if before is None else before
            sentence = f"{key} is already {held} dynamically."
            about.append(_finding("warning", "already_set", key, sentence))
        found += about
        if not any(item.severity == "error" or item.code == "already_set" for item in about):
            text = None if value is None else upstream_text(setting, value)
            steps.append(
                SetDynamicSetting(
                    key=key,
                    before=before,
                    value=text,
                    running=_running(basis, key),
                    reason=terms.reason,
                )
            )
    found += _check_shedding(basis, steps)
    return bare_plan(basis, terms, steps, found, is_complete=len(steps) == len(wanted))


def _running(basis: Basis, key: str) -> str | UnsetType:
    settings = basis.settings
    is_known = settings.origin(key) != "assumed" and key not in settings.differing()
    return upstream_words(settings.value(key)) if is_known else UNSET


def _check_shedding(basis: Basis, steps: Iterable[SetDynamicSetting]) -> Iterator[Diagnostic]:
    """Report the plan's settings that have no effect while shedding is off."""
    values = setting_values(steps)
    manager = basis.snapshot.manifest.load_manager
    unread = [
        key
        for key in values
        if key in _THRESHOLDS and (not manager or manager in SETTING_BY_KEY[key].managers)
    ]
    # a switch that the plan sets or removes is as the brokers' files then say, or as it is set
    off = [
        key for key in basis.settings.shedding_off if key not in values or values[key] == "false"
    ]
    if off and unread:
        more = f" and {pluralize(len(unread) - 1, 'other')}" if len(unread) > 1 else ""
        change = "change" if more else "changes"
        switches = " and ".join(f"{key} is false" for key in off)
        sentence = f"Shedding is off ({switches}), so {unread[0]}{more} {change} nothing now."
        dynamic = [key for key in off if SETTING_BY_KEY[key].is_dynamic_in(basis.settings.target)]
        where = "too" if dynamic == off else "in broker.conf"
        hint = f"To enable automatic shedding, set {' and '.join(off)} to true {where}."
        yield _finding("warning", "shedding_off", unread[0], sentence, hint)


def stored_settings(snapshot: PulsarSnapshot) -> dict[str, str]:
    """Return the dynamic settings of a snapshot, effective or not: key to text."""
    return {
        row["name"].removeprefix(STORED_PREFIX): row["value"]
        for row in snapshot.settings.to_pylist()
        if row["origin"] in ("dynamic", "stored")
    }


def check_setting(basis: Basis, setting: Setting, value: str | None) -> Iterator[Diagnostic]:
    """Check that brokers take the value, use it, and when.

    Args:
        basis: The cluster.
        value: As brokers write it; ``None`` if it is removed.
    """
    release = basis.settings.target
    if not setting.exists_in(release):
        sentence = f"Release {release.name} has no setting {setting.key}."
        hint = f"Available in {setting.available_in}."
        yield _finding("error", "setting_unknown_in_release", setting.key, sentence, hint)
    elif setting.is_dynamic and not setting.is_dynamic_in(release):
        sentence = f"{setting.key} is not dynamic in release {release.name}."
        hint = (
            f"It is dynamic from {setting.dynamic_since} on; change broker.conf and "
            "restart the brokers."
        )
        yield _finding("error", "setting_not_dynamic", setting.key, sentence, hint)
        return
    if not setting.is_dynamic:
        sentence = f"{setting.key} is not dynamic: the brokers would return 412."
        hint = "Change it in broker.conf and restart the brokers."
        yield _finding("error", "setting_not_dynamic", setting.key, sentence, hint)
        return
    if value is not None:
        yield from check_value(setting, value)
    if fault := path_fault(f"/admin/v2/{setting_request(setting.key, value).path}"):
        sentence = f"{setting.key} = {value!r} cannot be sent: {fault}."
        yield _finding("error", "setting_path", setting.key, sentence)
    yield from _check_use(basis, setting)


def upstream_text(setting: Setting, value: str) -> str:
    """Return a checked value as the brokers' own listing would write it."""
    parsed = parse_upstream_value(setting, value)
    if isinstance(parsed, bool):
        return "true" if parsed else "false"
    return ",".join(parsed) if isinstance(parsed, tuple) else value.strip()


def check_value(setting: Setting, value: str) -> Iterator[Diagnostic]:
    """Check type, range and name of a value as brokers write it."""
    try:
        parsed = parse_upstream_value(setting, value)
    except InputError as exc:
        hint = "Brokers would store it but keep their current value."
        yield _finding("error", "setting_value", setting.key, exc.message, hint)
        return
    if setting.kind == "bool" and value.strip().lower() not in ("true", "false"):
        sentence = f"{setting.key} must be true or false; brokers read {value!r} as false."
        yield _finding("error", "setting_value", setting.key, sentence)
    if isinstance(parsed, int | float) and not isinstance(parsed, bool):
        yield from _check_range(setting, float(parsed))
    if setting.kind == "text":
        yield from _check_name(setting, value.strip())


def _check_range(setting: Setting, number: float) -> Iterator[Diagnostic]:
    default = setting.default
    lowest = min(float(default), 0.0) if isinstance(default, int | float) else 0.0
    highest = (
        100.0 if setting.unit.startswith(_PERCENT) else 1.0 if setting.unit == "ratio" else None
    )
    if setting.key == "loadBalancerMsgRateDifferenceShedderThreshold":
        highest = None  # how much more than the least loaded broker: beyond 100% is sound
    if number < lowest or (highest is not None and number > highest):
        bound = f"below {lowest:g}" if number < lowest else f"above {highest:g}"
        sentence = f"{setting.key} = {number:g} {setting.unit} is {bound}."
        hint = f"Brokers accept it without an error; its default is {default}."
        yield _finding("error", "setting_range", setting.key, sentence.replace("  ", " "), hint)


def _check_name(setting: Setting, name: str) -> Iterator[Diagnostic]:
    """Classes and algorithms are names that the brokers look up only when they use them."""
    if not name:
        yield _finding("error", "setting_value", setting.key, f"{setting.key} needs a value.")
    elif setting.key == _SHEDDER and name.rpartition(".")[2] not in SHEDDING_STRATEGY_NAMES:
        sentence = f"{name} is not a shedding strategy of Pulsar."
        hint = f"Brokers store it anyway. Available: {', '.join(SHEDDING_STRATEGY_NAMES)}."
        yield _finding("warning", "setting_class_unknown", setting.key, sentence, hint)
    elif setting.key == _SPLITTER and name not in ALGORITHMS:
        sentence = f"{name} is not a split algorithm: every automatic split would fail."
        hint = f"Available: {', '.join(ALGORITHMS)}."
        yield _finding("error", "setting_value", setting.key, sentence, hint)


def _check_use(basis: Basis, setting: Setting) -> Iterator[Diagnostic]:
    if setting.takes_effect == "restart":
        sentence = (
            f"{setting.key} is read when a broker starts: the running value changes "
            "at once but takes effect after a restart."
        )
        hint = "Restart the brokers one by one afterwards."
        yield _finding("warning", "setting_at_restart", setting.key, sentence, hint)
    manager = basis.snapshot.manifest.load_manager
    if manager in ("modular", "extensible") and manager not in setting.managers:
        sentence = f"The {manager} load manager of this cluster does not read {setting.key}."
        yield _finding("warning", "setting_not_read", setting.key, sentence)


def _finding(
    severity: DiagnosticSeverity, code: str, subject: str, sentence: str, hint: str = ""
) -> Diagnostic:
    return Diagnostic(severity=severity, code=code, sentence=sentence, subject=subject, hint=hint)
