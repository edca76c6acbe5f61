"""Examine brokers that are known by a configuration file alone."""

from __future__ import annotations

from dataclasses import replace

from core.findings.engine import worst_first
from core.findings.finding import Finding, Fix
from core.pulsar.presets import upstream_words
from core.pulsar.rules.doctor.examine import Examination, examine
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.snapshot.config_files import BrokerConfig
from core.pulsar.snapshot.config_files.model import PREFIX
from core.snapshot import PulsarSnapshot


def examine_config(
    config: BrokerConfig, snapshot: PulsarSnapshot, settings: EffectiveSettings
) -> Examination:
    """Return the doctor's findings on a file; every fix is a line of that file.

    Args:
        config: What was read.
        snapshot: Made of it.
    """
    found = examine(snapshot, settings)
    every = worst_first([*config.remarks, *found.diagnoses])
    target = settings.target
    release = (
        ()
        if target.is_known
        else (f"No release is specified: the rules of {target.line} are assumed. Pass --release.",)
        if target.reported is None
        else (target.warning,)
    )
    return replace(
        found,
        diagnoses=tuple(_in_file(one, config, settings) for one in every),
        assumed=(),  # what the file does not set is the default
        unjudged=(
            *release,
            *config.unread,
            "A file does not contain load, bundles, policies and dynamic settings of a cluster.",
        ),
    )


def _in_file(one: Finding, config: BrokerConfig, settings: EffectiveSettings) -> Finding:
    """Return a finding with its fix as lines of the file; a default needs no line."""
    wanted = {key: upstream_words(value) for key, value in one.fix.wanted.items()}
    for line in one.fix.lines:
        key, _, value = line.partition("=")
        wanted[key] = value
    removed = [
        key
        for key, value in wanted.items()
        if key in config.values
        and key in SETTING_BY_KEY
        and value == upstream_words(settings.default_of(key))
    ]
    lines = [
        f'{PREFIX}{key}: "{value}"' if config.is_helm else f"{key}={value}"
        for key, value in wanted.items()
        if key not in removed
    ]
    hint = " ".join(filter(None, (one.hint, _remove(removed))))
    return replace(one, hint=hint, fix=Fix(lines=tuple(lines), restart=bool(wanted)))


def _remove(keys: list[str]) -> str:
    if not keys:
        return ""
    return f"Remove {' and '.join(keys)} from the file: the default is right."
