"""``trimtab doctor``: what is wrong with a cluster's settings, what comes of it, how to fix it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from core.diagnosis.pulsar.advice import simulated_findings
from core.errors import SnapshotError
from core.findings.finding import Finding
from core.pulsar.rules.doctor import Examination, examine
from core.pulsar.rules.doctor.answer import answer, group_words
from core.pulsar.rules.doctor.groups import Comparison
from core.pulsar.rules.recorded_past import RecordedPast
from core.pulsar.rules.verdict import verdict_of
from core.snapshot import Manifest, PulsarSnapshot
from dashboard.cli.config import config_words, read_config
from dashboard.cli.options import Config, Json, Release, Settings, Source
from dashboard.cli.output import Answer, emit, say, table
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import pulsar_snapshot
from dashboard.cli.pulsar.views import fix_command

_MOST_GROUPS = 6

app = typer.Typer()


@app.command()
def doctor(
    source: Source,
    settings: Settings = None,
    release: Release = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Check the settings: conflicts, differences, fixes.

    Show each conflict, difference and implausible value with its cause and fix.
    """
    assumptions = Assumptions.of(None, settings, release)
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
    found = replace(found, unjudged=(*found.unjudged, *filter(None, (trouble, elsewhere))))
    manifest = snapshot.manifest
    more = config_words(config)
    body = {
        "cluster": manifest.cluster,
        "snapshot_id": snapshot.snapshot_id,
        "taken_at": manifest.taken_at.isoformat(),
        "release": effective.release,
        "load_manager": manifest.load_manager,
        "answer": answer(found),
        "diagnoses": [_diagnosis_json(one, manifest.cluster, more) for one in found.diagnoses],
        "brokers": _comparison_json(found.comparison),
        "recorded": _past_json(past),
        "changed": list(found.changed),
        "assumed": list(found.assumed),
        "unjudged": list(found.unjudged),
    }
    return emit(Answer(body, lambda: _show(found, manifest, more)), as_json=as_json)


def _past(
    source: str, snapshot: PulsarSnapshot, config: Path | None
) -> tuple[RecordedPast | None, str]:
    """Return what was recorded of a cluster of the configuration, or why that is not known."""
    if Path(source).is_dir():
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


def _diagnosis_json(one: Finding, cluster: str, more: str) -> dict[str, Any]:
    return {
        "code": one.code,
        "area": one.area,
        "severity": one.severity,
        "keys": list(one.keys),
        "brokers": list(one.servers),
        "evidence": one.sentence,
        "consequence": one.consequence,
        "facts": dict(one.evidence),
        "assumed": list(one.assumed),
        "fix": {
            "sentence": one.hint,
            "dynamic": dict(one.fix.wanted),
            "broker_conf": list(one.fix.lines),
            "restart": one.fix.restart,
            "command": fix_command(one.fix, cluster, more) or None,
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


def _show(found: Examination, manifest: Manifest, more: str) -> None:
    say(answer(found))
    for one in found.diagnoses:
        say()
        say(f"{one.severity}: {one.sentence}", is_prose=True)
        say(f"  So: {one.consequence}")
        if one.hint:
            say(f"  Do: {one.hint}")
        if command := fix_command(one.fix, manifest.cluster, more):
            say(f"  {command}")
        for line in one.fix.lines:
            say(f"  broker.conf: {line}")
        if one.fix.restart:
            say("  It is read when a broker starts: restart the brokers one by one.")
    _show_brokers(found.comparison)
    if found.unjudged:
        say()
        for sentence in found.unjudged:
            say(f"unknown: {sentence}")


def _show_brokers(compared: Comparison) -> None:
    if not compared.rows:
        return
    say()
    groups = compared.groups[:_MOST_GROUPS]
    table(
        ("what differs", *(group_words(group) for group in groups)),
        [(row, *(group.values[row] for group in groups)) for row in compared.rows],
    )
    if len(compared.groups) > len(groups):
        say(f"{len(compared.groups) - len(groups)} more groups of brokers: --json has them all.")
