"""Numbers and texts of the settings page: values and their origin, diagnoses, presets, changes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from core.errors import InputError, OpsError
from core.findings.finding import Finding, count_by_severity
from core.pulsar.presets import Difference, set_option, upstream_words
from core.pulsar.rules.doctor import Examination
from core.pulsar.rules.doctor.answer import group_words
from core.pulsar.rules.doctor.groups import Comparison
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import RELEASES, SETTINGS, EffectiveSettings, Setting, known_setting
from core.units import UNKNOWN, listed, pluralize
from dashboard.presenters.figures import KeyFigure, Status
from dashboard.presenters.naming import ORIGINS
from dashboard.presenters.pulsar.sliders import sliders

SETTINGS_TAB: Final = "Settings"
FINDINGS_TAB: Final = "Findings"
COMPARED_TAB: Final = "Comparison"
PRESETS_TAB: Final = "Presets"
CHANGES_TAB: Final = "Unapplied changes"
TABS: Final = (SETTINGS_TAB, FINDINGS_TAB, COMPARED_TAB, PRESETS_TAB, CHANGES_TAB)


BROKERS, DEFAULTS, CLUSTER, PAST = "brokers", "defaults", "cluster", "past"
COMPARED_WITH: Final[Mapping[str, str]] = {
    BROKERS: "Broker with broker",
    DEFAULTS: "Defaults",
    CLUSTER: "Another cluster",
    PAST: "A past time",
}
"""What settings are compared with, by its name in the address."""


# -- the head of the page --------------------------------------------------------------------------


def key_figures(
    settings: EffectiveSettings, examination: Examination, strategy: str
) -> list[KeyFigure]:
    """Return the figures at the top: findings, differences, changes, and the strategy.

    Args:
        settings: Active ones.
        examination: What the doctor found.
        strategy: Class name of the active shedding strategy; empty: unknown.
    """
    counts = count_by_severity(examination.of_settings)
    status: Status = "bad" if counts["error"] else "warning" if counts["warning"] else "ok"
    if status == "ok" and (examination.doubted or examination.unjudged):
        status = "unknown"
    compared = examination.comparison
    off = next(iter(settings.shedding_off), None)
    return [
        KeyFigure(
            label="Conflicts",
            value=f"{counts['error'] + counts['warning']:,}",
            note=f"{counts['unknown']} unknown, {pluralize(counts['info'], 'note')}",
            status=status,
        ),
        KeyFigure(
            label="Differ by broker",
            value=f"{len(compared.rows):,}",
            note=f"on {pluralize(compared.brokers, 'broker')}",
            status="unknown" if not compared.brokers else "warning" if compared.rows else "ok",
        ),
        KeyFigure(
            label="Changed",
            value=f"{len(examination.changed):,}",
            note=f"of {len(SETTINGS)} settings",
        ),
        KeyFigure(
            label="Unknown values",
            value=f"{len(examination.assumed):,}",
            note="defaults assumed" if examination.assumed else "all values known",
            status="unknown" if examination.assumed else "",
        ),
        KeyFigure(
            label="Shedding strategy",
            value=strategy or UNKNOWN,
            note="active" if off is None else "shedding off",
            status="" if off is None else "warning",
            help="" if off is None else f"{off} is false.",
        ),
    ]


def subtitle(settings: EffectiveSettings, load_manager: str) -> str:
    """Return the load manager and the release of the defaults, separated by dots."""
    return f"{load_manager} load manager · defaults of release {settings.target.label}"


# -- settings, presets, changes --------------------------------------------------------------------

CHANGED: Final = "◆ changed"
"""Mark of a setting with another value than the default of the release."""

ERROR: Final = "✖ conflict"
CONFLICT: Final = "▲ conflict"
DIFFERING: Final = "≠ by broker"
ASSUMED: Final = "? unknown"
STATES: Final = (ERROR, CONFLICT, CHANGED, DIFFERING, ASSUMED)
"""What is to be known of a setting first, in the order in which settings are listed."""

SHOWN: Final = ("all", "conflicts", "changed", "differing", "dynamic", "unused")
_LONG: Final = "org.apache.pulsar.broker.loadbalance."


def value_words(value: object) -> str:
    """Return a value as people read it: class names without Pulsar's own package."""
    if value is None or value in ((), ""):
        return "(empty)"
    return upstream_words(value).replace(f"{_LONG}impl.", "").replace(_LONG, "")


def is_changed(settings: EffectiveSettings, setting: Setting) -> bool:
    """Return whether a setting has another value than its default."""
    return settings.value(setting.key) != settings.default_of(setting.key)


def settings_table(
    settings: EffectiveSettings,
    *,
    load_manager: str,
    shown: str,
    contains: str,
    diagnoses: Sequence[Finding] = (),
) -> pd.DataFrame:
    """Return one row a setting: those in conflict first, then those that differ, then the others.

    Args:
        load_manager: Which one decides.
        shown: One of :data:`SHOWN`.
        contains: Words, each part of the key, the meaning, the value or a finding, in any case;
            of ``KEY=VALUE`` the key.
        diagnoses: What the doctor found, worst first.
    """
    differing = settings.differing()
    wanted = contains.partition("=")[0].lower().split()
    rows = []
    for setting in SETTINGS:
        key = setting.key
        findings = findings_of(diagnoses, key)
        row = _row(settings, setting, differing.get(key, {}), findings)
        passes = {
            "conflicts": row["state"][0] in (ERROR, CONFLICT),
            "changed": is_changed(settings, setting),
            "differing": key in differing,
            "dynamic": setting.is_dynamic,
            "unused": not setting.is_read_by(load_manager),
        }
        if not passes.get(shown, True):
            continue
        text = f"{key} {setting.meaning} {setting.effect} {row['finding']} {row['value']}".lower()
        if all(word in text for word in wanted):
            rows.append(row)
    order = {state: at for at, state in enumerate((*STATES, ""))}
    rows.sort(key=lambda row: order[row["state"][0]])
    return pd.DataFrame(rows, columns=list(_row(settings, SETTINGS[0], {}, ())))


def findings_of(diagnoses: Iterable[Finding], key: str) -> list[Finding]:
    """Return the errors and warnings that concern a setting, worst first."""
    return [
        diagnosis
        for diagnosis in diagnoses
        if diagnosis.severity in ("error", "warning")
        and key in (diagnosis.subject, *diagnosis.keys)
    ]


def _row(
    settings: EffectiveSettings,
    setting: Setting,
    by_broker: Mapping[str, Any],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    values = {value_words(value) for value in by_broker.values()}
    mark = _mark(settings, setting)
    return {
        "key": setting.key,
        "state": [_state(settings, setting, findings, is_differing=bool(by_broker))],
        "mark": mark,
        "release": "" if mark == CHANGED else mark,
        "value": _with_unit(settings.value(setting.key), setting.unit),
        "default": _with_unit(settings.default_of(setting.key), setting.unit),
        "finding": findings[0].title if findings else "",
        "origin": ORIGINS[settings.origin(setting.key)],
        "dynamic": _felt(setting),
        "brokers": ", ".join(sorted(values)),
        "meaning": setting.meaning,
    }


def _state(
    settings: EffectiveSettings,
    setting: Setting,
    findings: Sequence[Finding],
    *,
    is_differing: bool,
) -> str:
    if findings:
        return ERROR if findings[0].severity == "error" else CONFLICT
    if is_changed(settings, setting) and settings.has(setting.key):
        return CHANGED
    if is_differing:
        return DIFFERING
    return ASSUMED if settings.origin(setting.key) == "assumed" else ""


def _with_unit(value: Any, unit: str) -> str:
    """Return a value as people write it: ``10%``, ``5000 ms``; without a unit where it is none."""
    text = value_words(value)
    if unit in ("", "ratio") or isinstance(value, (bool, str)) or value is None:
        return text
    if unit == "percent":
        return f"{text}%"
    noun, *rest = unit.split(" ", 1)
    noun = _SINGULAR.get(noun, noun) if value == 1 else noun
    return " ".join((text, noun, *rest))


_SINGULAR: Final = {
    "brokers": "broker",
    "bundles": "bundle",
    "bytes": "byte",
    "copies": "copy",
    "entries": "entry",
    "lookups": "lookup",
    "rounds": "round",
    "times": "time",
    "topics": "topic",
}
"""Units of one, by the units of the catalogue."""


def _mark(settings: EffectiveSettings, setting: Setting) -> str:
    if not settings.has(setting.key):
        return f"not in {settings.target.name}"
    return CHANGED if is_changed(settings, setting) else ""


def _felt(setting: Setting) -> str:
    """Return the moment when a changed value takes effect."""
    if not setting.is_dynamic:
        return "file + restart"
    return setting.takes_effect.replace("restart", "at restart")


def _spread(by_broker: Mapping[str, Any]) -> str:
    """Return the brokers by value, rarest value first."""
    holders: dict[str, list[str]] = {}
    for broker, value in by_broker.items():
        holders.setdefault(value_words(value), []).append(broker)
    ranked = sorted(holders.items(), key=lambda item: len(item[1]))
    return "; ".join(f"{value} on {listed(brokers, 2)}" for value, brokers in ranked)


def about(settings: EffectiveSettings, setting: Setting, load_manager: str) -> dict[str, str]:
    """Return everything that is known about one setting."""
    by_broker = settings.differing().get(setting.key, {})
    read = ", ".join(setting.managers)
    missing = "" if setting.is_read_by(load_manager) else " (other load manager)"
    facts = {
        "Effective": _with_unit(settings.value(setting.key), setting.unit),
        "From": ORIGINS[settings.origin(setting.key)],
        "Takes effect": _felt(setting)
        if setting.is_dynamic
        else "after a change of broker.conf and a restart",
        "Read by": f"{read}{missing}",
    }
    if setting.available_in != f"{RELEASES[0]} and later":
        facts["Available in"] = setting.available_in
    facts |= _defaults(setting)
    if by_broker:
        facts["Brokers"] = _spread(by_broker)
    return facts


def _defaults(setting: Setting) -> dict[str, str]:
    """Return the default of each run of release lines with the same one."""
    found = [
        (line, _with_unit(value, setting.unit))
        for line, value in setting.defaults_by_release.items()
    ]
    runs = [list(run) for _, run in itertools.groupby(found, key=lambda pair: pair[1])]
    if len(runs) == 1:
        return {"Default": runs[0][0][1]}
    return {
        f"Default {run[0][0]}" + (f" to {run[-1][0]}" if len(run) > 1 else ""): run[0][1]
        for run in runs
    }


def preset_table(differences: Iterable[Difference]) -> pd.DataFrame:
    """Return the settings that a preset changes."""
    return pd.DataFrame(
        [
            {
                "key": difference.setting.key,
                "now": _with_unit(difference.present, difference.setting.unit),
                "preset": _with_unit(difference.wanted, difference.setting.unit),
                "unit": difference.setting.unit,
                "origin": ORIGINS[difference.origin],
                "dynamic": _felt(difference.setting),
                "meaning": difference.setting.meaning,
            }
            for difference in differences
        ],
        columns=["key", "now", "preset", "unit", "origin", "dynamic", "meaning"],
    )


# -- requested changes: KEY=VALUE, VALUE being JSON, null: taken away -----------------------------


def parsed_change(option: str) -> tuple[str, Any]:
    """Return the key and the typed value of ``KEY=VALUE``, ``None``: taken away.

    A value that is no JSON is taken as text.

    Raises:
        UnknownNameError: A key that no setting has.
        InputError: No ``=``, or a value of the wrong type.
    """
    key, sign, text = option.partition("=")
    setting = known_setting(key.strip())
    if not sign:
        raise InputError(
            f"{key} requires a value.",
            hint=f"Specify {key}=VALUE, or {key}=null to remove the value.",
        )
    try:
        value = json.loads(text)
    except ValueError:
        value = text.strip()
    return setting.key, None if value is None else typed_value(setting, value)


def parsed_changes(options: Sequence[str]) -> tuple[dict[str, Any], list[OpsError]]:
    """Return the valid changes by key, ``None``: taken away, and the errors of the others."""
    changes: dict[str, Any] = {}
    errors = []
    for option in options:
        try:
            key, value = parsed_change(option)
        except OpsError as error:
            errors.append(error)
        else:
            changes[key] = value
    return changes, errors


def rounds_words(
    now: tuple[str, EffectiveSettings], then: tuple[str, EffectiveSettings]
) -> list[tuple[str, str]]:
    """Return the next round now and with the changes, each a label and a sentence.

    Args:
        now: The strategy's decision, which leaves the switches aside, and the settings.
        then: The same with the changes.
    """
    off_now, off_then = (next(iter(settings.shedding_off), None) for _, settings in (now, then))
    decision_now, decision_then = now[0], then[0]
    if off_now and off_then:
        same = f"No effect on the next round: shedding is off ({off_then} is false)."
        if decision_now == decision_then:
            return [("With the changes", same)]
        return [
            ("With the changes", same),
            ("Next round with shedding on", decision_now),
            ("With the changes and shedding on", decision_then),
        ]
    if off_now == off_then and decision_now == decision_then:
        return [("With the changes", f"No effect on the next round: {decision_then}")]
    return [
        ("Next shedding round", f"None, because {off_now} is false." if off_now else decision_now),
        ("With the changes", f"None, because {off_then} is false." if off_then else decision_then),
    ]


def rebalance_params(
    changes: Mapping[str, Any], settings: EffectiveSettings, effective: str
) -> dict[str, str]:
    """Return the parameters of the Rebalance page for the changes; empty if it cannot try them.

    Args:
        changes: Requested changes.
        settings: In force.
        effective: Class name of the shedding strategy.
    """
    named = changes.get("loadBalancerLoadSheddingStrategy")
    strategy = str(named).rpartition(".")[2] if named else effective
    turned = {}
    for slider in sliders(strategy):
        value = changes.get(slider.key)
        if value is not None and value != slider.present(settings):
            turned[slider.key] = str(value).lower() if slider.is_switch else f"{value:g}"
    return {"pick": strategy, **turned} if turned or named else {}


# -- the doctor ------------------------------------------------------------------------------------

MOST_GROUPS: Final = 8
_SAME: Final = "·"


def fix_options(finding: Finding) -> list[str]:
    """Return the dynamic part of a fix as changes, ``KEY=VALUE`` with VALUE as JSON."""
    return [
        set_option(key, list(value) if isinstance(value, tuple) else value)
        for key, value in finding.fix.wanted.items()
    ]


def differences(here: EffectiveSettings, there: EffectiveSettings | None) -> pd.DataFrame:
    """Return one row a setting with another value: ``key``, ``here``, ``there``, ``dynamic``.

    Args:
        here: Settings of the shown snapshot.
        there: The others; ``None``: the defaults of the release.
    """
    rows = [
        {
            "key": setting.key,
            "here": _known_value(here, setting),
            "there": _default(here, setting) if there is None else _known_value(there, setting),
            "dynamic": _felt(setting),
        }
        for setting in SETTINGS
    ]
    frame = pd.DataFrame(rows, columns=["key", "here", "there", "dynamic"])
    return frame[frame["here"] != frame["there"]].reset_index(drop=True)


def _known_value(settings: EffectiveSettings, setting: Setting) -> str:
    if settings.origin(setting.key) == "assumed":
        return UNKNOWN
    return _with_unit(settings.value(setting.key), setting.unit)


def _default(settings: EffectiveSettings, setting: Setting) -> str:
    return _with_unit(settings.default_of(setting.key), setting.unit)


def adopted(keys: Iterable[str], there: EffectiveSettings) -> list[str]:
    """Return the changes that give settings the values of others, ``KEY=VALUE``.

    Args:
        keys: Of the settings.
        there: The others; a setting that is unknown there is not changed.
    """
    values = {key: there.value(key) for key in keys if there.origin(key) != "assumed"}
    return [
        set_option(key, list(value) if isinstance(value, tuple) else value)
        for key, value in values.items()
    ]


def comparison_table(compared: Comparison) -> pd.DataFrame:
    """Return one row per difference, one column for each of the largest groups of brokers.

    A cell that has the most common value holds a dot, so that what is odd stands out.
    """
    groups = compared.groups[:MOST_GROUPS]
    rows = []
    for row in compared.rows:
        common = compared.common[row]
        cells = {
            group_words(group): _SAME if group.values[row] == common else group.values[row]
            for group in groups
        }
        rows.append({"what": row, "common": common, **cells})
    return pd.DataFrame(rows, columns=["what", "common", *(group_words(group) for group in groups)])


def members(compared: Comparison) -> list[str]:
    """Return the members of each of the shown groups that has several brokers."""
    return [
        f"{group_words(group)}: {', '.join(group.brokers)}"
        for group in compared.groups[:MOST_GROUPS]
        if len(group.brokers) > 1
    ]
