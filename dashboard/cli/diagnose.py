"""``trimtab diagnose``: why a cluster is uneven or restless, and which change proves it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer

from core.diagnosis.model import Cause, Diagnosis, Effect
from core.diagnosis.request import DiagnoseRequest
from core.units import format_ratio, pluralize
from dashboard.cli import systems
from dashboard.cli.config import config_words
from dashboard.cli.each import progress
from dashboard.cli.options import Config, Json, Source
from dashboard.cli.output import Answer, emit, say
from dashboard.cli.parts import part
from dashboard.cli.requests import takes
from dashboard.cli.source import snapshot_directories

_MAX_CAUSES: Final = 4

app = typer.Typer()


@app.command()
@takes(DiagnoseRequest)
def diagnose(
    source: Source, request: DiagnoseRequest, config: Config = None, as_json: Json = False
) -> int:
    """Name the causes of uneven load, each proven by a simulation of its fix."""
    from core.diagnosis.systems import diagnose as name_causes  # noqa: PLC0415  # heavy: not at start

    with snapshot_directories([source], config) as directories:
        _, snapshot = systems.snapshot_in(directories[0])
        started = time.perf_counter()
        found = name_causes(snapshot, request, progress())
    elapsed_ms = (time.perf_counter() - started) * 1000
    manifest = snapshot.manifest
    name = source if not Path(source).is_dir() else manifest.cluster
    command_of = partial(_command, manifest.kind, name, config_words(config))
    body = {
        "cluster": manifest.cluster,
        "snapshot_id": snapshot.snapshot_id,
        "taken_at": manifest.taken_at.isoformat(),
        "answer": found.answer,
        "subject": found.subject or None,
        "causes": [_cause_json(one, command_of(one)) for one in found.causes],
        "tried": found.tried,
        "untried": found.untried,
        "notes": list(found.notes),
        "elapsed_ms": round(elapsed_ms, 3),
    }
    return emit(Answer(body, lambda: _show(found, command_of)), as_json=as_json)


def _command(kind: str, cluster: str, more: str, cause: Cause) -> str:
    """Return the command that makes a plan of a fix; blank: there is none."""
    views = part(kind, "views")
    return str(views.fix_command(cause.fix, cluster, more)) if views is not None else ""


def _cause_json(cause: Cause, command: str) -> dict[str, Any]:
    return {
        "code": cause.code,
        "keys": list(cause.keys),
        "objects": list(cause.objects),
        "summary": cause.summary,
        "measured": cause.measured,
        "threshold": cause.threshold,
        "unit": cause.unit,
        "effect": cause.effect.as_json(),
        "fix": {
            "sentence": cause.hint,
            "dynamic": dict(cause.fix.wanted),
            "broker_conf": list(cause.fix.lines),
            "restart": cause.fix.restart,
            "command": command or None,
        },
    }


def _show(found: Diagnosis, command_of: Callable[[Cause], str]) -> None:
    say(found.answer)
    if found.subject:
        say(found.subject)
    for number, cause in enumerate(found.causes[:_MAX_CAUSES], 1):
        say(f"{number}. {cause.summary} [{cause.code}]")
        say(f"   {_effect_words(cause.effect)}")
        restart = " (restart the servers one by one)" if cause.fix.restart else ""
        lines = filter(None, (command_of(cause), *cause.fix.lines))
        say(f"   Fix: {'; '.join(lines) or cause.hint}{restart}")
    if found.causes:
        rest = f"{found.untried:,} not tried: the time was over. " if found.untried else ""
        say(f"{pluralize(found.tried, 'change')} simulated. {rest}{' '.join(found.notes[:1])}")
    else:
        for text in found.notes:
            say(text)


def _effect_words(effect: Effect) -> str:
    before, after = effect.before, effect.after
    parts = [
        f"deviation {format_ratio(before.deviation)} -> {format_ratio(after.deviation)}",
        f"moves {before.moves:,} -> {after.moves:,}",
        f"back {before.returned:,} -> {after.returned:,}",
    ]
    if not before.converges:
        parts.append(f"converges after {pluralize(after.rounds, 'round')} (now: never)")
    return "With the fix: " + ", ".join(parts)
