"""``trimtab diagnose``: why a cluster is uneven or restless, and which change proves it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from core.diagnosis.model import Cause, Diagnosis, Effect
from core.diagnosis.request import DiagnoseRequest
from core.errors import InputError
from core.findings.finding import Fix
from core.findings.json import scope_json
from core.snapshot.store import Storable
from core.units import format_ratio, pluralize
from dashboard import services
from dashboard.cli import systems
from dashboard.cli.config import config_words, read_config
from dashboard.cli.history.moments import moment
from dashboard.cli.options import Config, Json, Source
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import takes
from dashboard.cli.source import is_path, snapshot_directories
from dashboard.systems import part

app = typer.Typer()

Since = Annotated[
    str | None,
    typer.Option(
        metavar="6h",
        help="Read the recorded history of the cluster for this duration, for example 6h.",
    ),
]


@app.command()
@takes(DiagnoseRequest)
def diagnose(
    source: Source,
    request: DiagnoseRequest,
    since: Since = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Find the causes of uneven load, verified by simulation.

    The fix of each cause is simulated to convergence.
    """
    try:
        request = request.checked()
    except InputError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    if since is not None:
        return _over_time(source, request, since, config, as_json=as_json)
    from core.diagnosis.systems import diagnose as name_causes  # noqa: PLC0415  # heavy: not at start

    with snapshot_directories([source], config) as directories:
        _, snapshot = systems.snapshot_in(directories[0])
        started = time.perf_counter()
        found = name_causes(snapshot, request, STATUS, earlier=_earlier(source, snapshot, config))
    elapsed_ms = (time.perf_counter() - started) * 1000
    name = source if not Path(source).is_dir() else snapshot.manifest.cluster
    return _answered(found, snapshot, name, config, {}, elapsed_ms, (), as_json=as_json)


def _earlier(source: str, snapshot: Storable, config: Path | None) -> list[Storable]:
    """Return saved snapshots of a named cluster, which show persistence; of a directory none."""
    if is_path(source):
        return []
    return services.earlier_snapshots(read_config(config), snapshot)


def _over_time(
    cluster: str, request: DiagnoseRequest, since: str, config: Path | None, *, as_json: bool
) -> int:
    """Diagnose the recorded period of a configured cluster."""
    from core.history.analysis.diagnosis import over_time  # noqa: PLC0415  # heavy: not at start
    from dashboard.services import history  # noqa: PLC0415  # heavy: not at start

    loaded = read_config(config)
    if cluster not in [one.name for one in loaded.clusters]:
        raise UsageFaultError(
            f"--since reads the history of a configured cluster; {cluster} is not configured.",
            hint=f"Configured: {', '.join(one.name for one in loaded.clusters) or 'none'}; or "
            "omit --since.",
        )
    now = services.now()
    try:
        period = now - moment(f"-{since.strip().removeprefix('-')}", now)
    except UsageFaultError as exc:
        raise UsageFaultError(
            f"--since {since!r} is not a duration.", hint="Use a duration such as 90min, 6h or 2d."
        ) from exc
    started = time.perf_counter()
    store = history.history(loaded)
    found = over_time(store, cluster, period, request, STATUS, minute_s=loaded.history.minute_s)
    elapsed_ms = (time.perf_counter() - started) * 1000
    snapshot = store.snapshot_at(cluster, found.worst_at)
    kind, words = snapshot.manifest.kind, config_words(config)
    command = _command(kind, cluster, words, found.prevention.fix)
    body = {
        "from": found.start.isoformat(),
        "to": found.end.isoformat(),
        "moves": found.moves,
        "returned": found.returned,
        "flapping": [{"name": name, "returns": count} for name, count in found.flapping],
        "verdicts": [{"sentence": words, "minutes": count} for words, count in found.verdicts],
        "moved": [
            {
                "taken_at": one.taken_at.isoformat(),
                "from": one.before,
                "to": one.after or None,
                "by": one.by or None,
                "why": one.why,
            }
            for one in found.moved
        ],
        "answer": found.answer,
        "worst_at": found.worst_at.isoformat(),
        "prevention": {**found.prevention.as_json(), "command": command or None},
    }
    lines = [*found.sentences, f"Max deviation at {found.worst_at:%Y-%m-%d %H:%M} UTC:"]
    if found.prevention.best is not None:
        lines[1:1] = _fix_lines("Prevention", found.prevention.fix, command)
    return _answered(
        found.worst,
        snapshot,
        cluster,
        config,
        {"over_time": body},
        elapsed_ms,
        lines,
        as_json=as_json,
    )


def _answered(
    diagnosis: Diagnosis,
    snapshot: Storable,
    name: str,
    config: Path | None,
    more: dict[str, Any],
    elapsed_ms: float,
    lines: Sequence[str],
    *,
    as_json: bool,
) -> int:
    """Print a diagnosis; ``lines`` come before it, ``more`` is further JSON."""
    manifest = snapshot.manifest
    words = config_words(config)

    def command_of(cause: Cause) -> str:
        return _command(manifest.kind, name, words, cause.fix)

    body = {
        "cluster": manifest.cluster,
        "snapshot_id": snapshot.snapshot_id,
        "taken_at": manifest.taken_at.isoformat(),
        "answer": _answer(diagnosis),
        "subject": diagnosis.subject or None,
        "causes": [_cause_json(one, command_of(one)) for one in diagnosis.causes],
        "scope": [] if diagnosis.verdict is None else scope_json(diagnosis.verdict),
        "tried": diagnosis.tried,
        "untried": diagnosis.untried,
        "untried_pairs": diagnosis.untried_pairs,
        "cut_short": diagnosis.cut_short,
        "notes": list(diagnosis.notes),
        "elapsed_ms": round(elapsed_ms, 3),
        **more,
    }

    def show() -> None:
        for line in lines:
            print_line(line)
        _show(diagnosis, command_of)

    return emit(Answer(body, show), as_json=as_json)


def _answer(diagnosis: Diagnosis) -> str:
    """Return the answer, with the option that continues a search that is not complete."""
    if diagnosis.is_complete:
        return diagnosis.answer
    return f"{diagnosis.answer} Continue with --seconds {diagnosis.continue_seconds:g}."


def _command(kind: str, cluster: str, more: str, fix: Fix) -> str:
    """Return the command that makes a plan of a fix; blank: there is none."""
    views = part(kind, "views")
    return str(views.fix_command(fix, cluster, more)) if views is not None else ""


def _cause_json(cause: Cause, command: str) -> dict[str, Any]:
    return {
        "code": cause.code,
        "keys": list(cause.keys),
        "objects": list(cause.objects),
        "summary": cause.summary,
        "measured": cause.measured,
        "threshold": cause.threshold,
        "unit": cause.unit,
        "effect": None if cause.effect is None else cause.effect.as_json(),
        "severity": cause.severity,
        "cost": {
            "bundles": cause.cost.bundles,
            "topics": cause.cost.topics,
            "connections": cause.cost.connections,
        },
        "fix": {
            "sentence": cause.hint,
            "dynamic": dict(cause.fix.wanted),
            "broker_conf": list(cause.fix.lines),
            "restart": cause.fix.restart,
            "command": command or None,
        },
    }


def _show(diagnosis: Diagnosis, command_of: Callable[[Cause], str]) -> None:
    """Print a diagnosis with all its causes."""
    print_line(_answer(diagnosis))
    if diagnosis.subject:
        print_line(diagnosis.subject)
    for number, cause in enumerate(diagnosis.causes, 1):
        fix = _fix_lines("Fix", cause.fix, command_of(cause), cause.hint)
        print_line(f"{number}. {cause.summary}", is_prose=True)
        for line in (*_consequence(cause), *fix):
            print_line(f"   {line}", is_prose=line not in fix)
    if diagnosis.causes and diagnosis.tried:  # facts need no simulation
        print_line(f"{pluralize(diagnosis.tried, 'change')} simulated.")
    for text in diagnosis.notes:
        print_line(text, is_prose=True)


def _fix_lines(title: str, fix: Fix, command: str, hint: str = "") -> list[str]:
    """Return a fix, each command and setting on a line of its own: they are copied."""
    ways = [*command.splitlines(), *(f"{fix.file('broker.conf')}: {line}" for line in fix.lines)]
    restart = "then a rolling restart"
    if not ways:
        return [f"{title}: {hint}{f', {restart}' if fix.restart else ''}"]
    return [f"{title}:", *(f"  {way}" for way in ways), *([f"  {restart}"] * fix.restart)]


def _consequence(cause: Cause) -> list[str]:
    """Return the effect of a fix, or the known cost of a fact to clients."""
    if cause.effect is not None:
        return [_effect_words(cause.effect)]
    parts = [pluralize(count, noun) for count, noun in cause.cost.counts]
    return [f"Affected: {', '.join(parts)}."] if parts else []


def _effect_words(effect: Effect) -> str:
    before, after = effect.before, effect.after
    parts = [
        f"deviation {format_ratio(before.deviation)} -> {format_ratio(after.deviation)}",
        f"moves {before.moves:,} -> {after.moves:,}",
    ]
    if before.missing or after.missing:
        parts.insert(0, f"unhealthy {before.missing:,} -> {after.missing:,}")
    if before.returned or after.returned:
        parts.append(f"returned {before.returned:,} -> {after.returned:,}")
    if before.idle_moves or after.idle_moves:
        parts.append(f"moves without traffic {before.idle_moves:,} -> {after.idle_moves:,}")
    if not before.converges:
        when = f"after {pluralize(after.rounds, 'round')}" if after.rounds else "immediately"
        parts.append(f"converges {when} (now: never)" if after.converges else "never converges")
    return "With the fix: " + ", ".join(parts)
