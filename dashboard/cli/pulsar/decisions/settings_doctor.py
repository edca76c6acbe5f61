"""``trimtab doctor``: what is wrong with a cluster's settings, what comes of it, how to fix it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from core.diagnosis.pulsar.advice import simulated_findings
from core.errors import SnapshotError
from core.findings.finding import Finding
from core.pulsar.presets import set_command
from core.pulsar.rules.doctor import Examination, examine
from core.pulsar.rules.doctor.answer import answer, answer_of_file, group_words
from core.pulsar.rules.doctor.groups import Comparison
from core.pulsar.rules.doctor.of_config import examine_config
from core.pulsar.rules.recorded_past import RecordedPast
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.snapshot.config_files import (
    BrokerConfig,
    read_broker_conf,
    read_helm_values,
    snapshot_of_config,
)
from core.snapshot import Manifest, PulsarSnapshot
from core.units import pluralize, severity_label
from dashboard import services
from dashboard.cli.config import config_words, read_config
from dashboard.cli.options import Config, Json, MaybeSource, Release, Settings
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import pulsar_snapshot
from dashboard.cli.source import is_path

_MOST_GROUPS = 6
_MOST_PLACES = 4

app = typer.Typer()


@app.command()
def doctor(
    source: MaybeSource = None,
    conf: Annotated[
        Path | None,
        typer.Option("--conf", metavar="FILE", help="Check a broker.conf instead of a cluster."),
    ] = None,
    helm: Annotated[
        Path | None,
        typer.Option("--helm", metavar="FILE", help="Check the values of a Helm chart."),
    ] = None,
    settings: Settings = None,
    release: Release = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Check the settings: conflicts, differences, fixes.

    Show each conflict, difference and implausible value with its cause and fix.
    """
    assumptions = Assumptions.of(None, settings, release)
    if conf is not None or helm is not None:
        return _of_file(source, conf, helm, assumptions, as_json=as_json)
    if source is None:
        raise UsageFaultError(
            "Nothing to check.",
            hint="Specify a cluster or a snapshot, or pass --conf FILE or --helm FILE.",
        )
    snapshot = pulsar_snapshot(source, config)
    effective = assumptions.settings_of(snapshot)
    past, trouble = _past(source, snapshot, config)
    found = examine(snapshot, effective, past)
    checked = simulated_findings(
        snapshot, found.diagnoses, assumed=assumptions.overrides, release=assumptions.release
    )
    found = replace(found, diagnoses=checked)
    judged = ("settings", "policies", "measurements")
    elsewhere = verdict_of(snapshot, effective).elsewhere(judged)
    found = replace(found, unjudged=(*found.unjudged, *filter(None, (trouble,))))
    more = config_words(config)
    body = _body(snapshot, effective, found, past, more, sentence=answer(found))
    body["elsewhere"] = elsewhere or None

    def show() -> None:
        _show(found, snapshot.manifest, more)
        if elsewhere:
            print_line()
            print_line(elsewhere)

    return emit(Answer(body, show), as_json=as_json)


def _of_file(
    source: str | None,
    conf: Path | None,
    helm: Path | None,
    assumptions: Assumptions,
    *,
    as_json: bool,
) -> int:
    """Judge a configuration file by itself."""
    if len([one for one in (source, conf, helm) if one is not None]) > 1:
        raise UsageFaultError(
            "Specify either a cluster, --conf or --helm.",
            hint="Check files one by one.",
        )
    config = read_broker_conf(conf) if conf is not None else read_helm_values(helm or Path())
    snapshot = snapshot_of_config(config, services.now(), assumptions.release)
    effective = effective_settings(
        snapshot, overrides=assumptions.overrides, release=assumptions.release
    )
    found = examine_config(config, snapshot, effective)
    body = _body(snapshot, effective, found, None, "", sentence=answer_of_file(found))
    body["elsewhere"] = None  # a file is no cluster
    return emit(Answer(body, lambda: _show_file(found, config, effective)), as_json=as_json)


def _body(
    snapshot: PulsarSnapshot,
    effective: EffectiveSettings,
    examination: Examination,
    past: RecordedPast | None,
    more: str,
    *,
    sentence: str,
) -> dict[str, Any]:
    manifest = snapshot.manifest
    return {
        "cluster": manifest.cluster,
        "snapshot_id": snapshot.snapshot_id,
        "taken_at": manifest.taken_at.isoformat(),
        "release": effective.release,
        "load_manager": manifest.load_manager,
        "answer": sentence,
        "diagnoses": [
            _diagnosis_json(diagnosis, manifest.cluster, more)
            for diagnosis in examination.diagnoses
        ],
        "brokers": _comparison_json(examination.comparison),
        "recorded": _past_json(past),
        "changed": list(examination.changed),
        "assumed": list(examination.assumed),
        "unjudged": list(examination.unjudged),
    }


def _past(
    source: str, snapshot: PulsarSnapshot, config: Path | None
) -> tuple[RecordedPast | None, str]:
    """Return the recorded past of a configured cluster, or why it is unknown."""
    if is_path(source):
        return None, ""
    from dashboard.services.pulsar.recorded_week import (  # noqa: PLC0415  # a snapshot alone needs no history
        recorded_week,
        silence_words,
    )

    loaded = read_config(config)
    try:
        return recorded_week(loaded, source, snapshot.manifest.taken_at), ""
    except SnapshotError as error:
        return None, silence_words(error)


def _past_json(past: RecordedPast | None) -> dict[str, str] | None:
    if past is None:
        return None
    return {"start": past.start.isoformat(), "end": past.end.isoformat()}


def _diagnosis_json(finding: Finding, cluster: str, more: str) -> dict[str, Any]:
    return {
        "code": finding.code,
        "area": finding.area,
        "severity": finding.severity,
        "keys": list(finding.keys),
        "brokers": list(finding.servers),
        "evidence": finding.sentence,
        "consequence": finding.consequence,
        "facts": dict(finding.evidence),
        "assumed": list(finding.assumed),
        "fix": {
            "sentence": finding.hint,
            "dynamic": dict(finding.fix.wanted),
            "broker_conf": list(finding.fix.lines),
            "restart": finding.fix.restart,
            "command": set_command(finding.fix.wanted, cluster, more) or None,
        },
    }


def _comparison_json(compared: Comparison) -> dict[str, Any]:
    return {
        "count": compared.brokers,
        "differing": list(compared.rows),
        "common": dict(compared.common),
        "groups": [
            {
                "brokers": list(group.brokers),
                "has_leader": group.has_leader,
                "values": dict(group.values),
            }
            for group in compared.groups
        ],
    }


def _show(examination: Examination, manifest: Manifest, more: str) -> None:
    print_line(answer(examination))
    for diagnosis in examination.diagnoses:
        _show_finding(
            diagnosis, set_command(diagnosis.fix.wanted, manifest.cluster, more), "broker.conf"
        )
    _show_brokers(examination.comparison)
    _show_unjudged(examination)


def _show_file(
    examination: Examination, config: BrokerConfig, effective: EffectiveSettings
) -> None:
    read = pluralize(len(config.values), "setting")
    print_line(f"{config.name}: {read}, release {effective.target.name}.")
    print_line(answer_of_file(examination))
    for diagnosis in examination.diagnoses:
        _show_finding(diagnosis, "", config.name)
        places = [f"{key} {config.lines[key]}" for key in diagnosis.keys if key in config.lines]
        if places:
            more = f" and {len(places) - _MOST_PLACES} more" if places[_MOST_PLACES:] else ""
            print_line(f"  Source: {', '.join(places[:_MOST_PLACES])}{more}.")
    _show_unjudged(examination)


def _show_finding(finding: Finding, command: str, file: str) -> None:
    print_line()
    print_line(f"{severity_label(finding.severity)}: {finding.sentence}", is_prose=True)
    print_line(f"  Consequence: {finding.consequence}")
    if finding.hint:
        print_line(f"  Fix: {finding.hint}")
    if command:
        print_line(f"  {command}")
    for line in finding.fix.lines:
        print_line(f"  {finding.fix.file(file)}: {line}")
    if finding.fix.restart:
        print_line("  A broker reads it at its start: restart the brokers one by one.")


def _show_unjudged(examination: Examination) -> None:
    if examination.unjudged:
        print_line()
        for sentence in examination.unjudged:
            print_line(f"unknown: {sentence}")


def _show_brokers(compared: Comparison) -> None:
    if not compared.rows:
        return
    print_line()
    groups = compared.groups[:_MOST_GROUPS]
    table(
        ("differences", *(group_words(group) for group in groups)),
        [(row, *(group.values[row] for group in groups)) for row in compared.rows],
    )
    if len(compared.groups) > len(groups):
        print_line(
            f"{len(compared.groups) - len(groups)} more groups of brokers; --json lists all."
        )
