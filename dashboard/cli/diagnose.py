"""``trimtab diagnose``: why a cluster is uneven or restless, and which change proves it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from core.diagnosis.request import DiagnoseRequest
from core.operations.diagnose import OPERATION, ClusterDiagnosis, fix_lines
from dashboard import services
from dashboard.cli import operations
from dashboard.cli.config import config_words, read_config
from dashboard.cli.history.moments import moment
from dashboard.cli.options import Config, EngineName, Json, OutTables, Server, Source
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import takes

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
    out: OutTables = None,
    engine: EngineName = "local",
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Find the causes of uneven load, verified by simulation.

    The fix of each cause is simulated to convergence.
    """
    on_spark = operations.is_on_spark(engine, server)
    if since is None:
        sources = operations.sources_of(OPERATION, source, config, server)
        options = operations.Options(sources, out, (), None, on_spark, config, server)
        return operations.answer(OPERATION, request, options, as_json=as_json)
    if on_spark or server is not None or out is not None:
        raise UsageFaultError(
            "--since reads the history of this machine.",
            hint="Omit --engine, --out and --server, or omit --since.",
        )
    return _over_time(source, request, since, config, as_json=as_json)


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
    worst = ClusterDiagnosis(snapshot.snapshot_id, snapshot.manifest, found.worst)
    worst = worst.with_words(config_words(config))
    command = worst.command(found.prevention.fix)
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
        lines[1:1] = fix_lines("Prevention", found.prevention.fix, command)
    done = operations.Answered.of(worst, request, snapshot.manifest.taken_at, elapsed_ms, ())
    shown = operations.printable(OPERATION, done)

    def show() -> None:
        for line in lines:
            print_line(line)
        shown.show()

    return emit(Answer({**shown.body, "over_time": body}, show), as_json=as_json)
