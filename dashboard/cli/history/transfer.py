"""``trimtab history``: export, import, repair and compact."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import OpsError, UnknownNameError
from core.history.store.integrity import QUARANTINE, planned
from core.history.transfer.export import Archive
from core.history.transfer.export import export as export_minutes
from core.history.transfer.importing import export_snapshots, import_file, import_snapshots
from core.units import datetime_to_ms, format_bytes, pluralize
from dashboard import services
from dashboard.cli.history import From, To, Uri
from dashboard.cli.history.moments import span
from dashboard.cli.history.recorded import CommandHistory, as_iso, clock, span_text
from dashboard.cli.options import Config, Json
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    EXIT_REFUSED,
    Answer,
    UsageFaultError,
    emit,
    note,
    print_line,
    table,
)
from dashboard.cli.progress import STATUS
from dashboard.services import history

app = typer.Typer()


@app.command("export")
def export_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CLUSTER", help="Cluster name in the history, or a directory of snapshots."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to create.")],
    from_time: From = None,
    to_time: To = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Write a time range to one file, for another machine."""
    past = CommandHistory.of(uri, config)
    start, end = span(from_time, to_time, services.now())
    if out.exists():
        raise UsageFaultError(f"{out} already exists.", hint="Specify a new file.")
    if Path(source).is_dir() and source not in past.store.clusters():
        if start is not None or end is not None:
            raise UsageFaultError(
                f"{source} is a directory of snapshots; a range does not apply to it.",
                hint="Omit --from and --to.",
            )
        export_snapshots(Path(source), None, out)
    else:
        first, last = past.span_of(source)
        export_minutes(past.store, source, start or first, end or last, out, STATUS)
    with Archive(out, past.store.location.kinds) as archive:
        contents = archive.contents
    size = out.stat().st_size
    body = {
        "cluster": contents.cluster,
        "export": str(out),
        "minutes": contents.minutes,
        "from": as_iso(contents.first),
        "to": as_iso(contents.last),
        "bytes": size,
    }
    is_more = start is not None and contents.first < datetime_to_ms(start)

    def show() -> None:
        print_line(
            f"{out}: {span_text(contents.minutes, contents.first, contents.last)} of "
            f"{contents.cluster}, "
            f"{clock(contents.first)} to {clock(contents.last)} UTC, {format_bytes(size)}."
        )
        if is_more:
            print_line("It begins before --from: an export begins at a full hour.")
        print_line("Import it on another machine with `trimtab history import FILE`.")

    return emit(Answer(body, show), as_json=as_json)


@app.command("import")
def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Export file, snapshot directory, or directory of snapshots."
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Cluster name to import as.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Import an exported range, or snapshots.

    Minutes that are already recorded are skipped.
    """
    if not source.exists():
        raise UsageFaultError(
            f"{source} does not exist.",
            hint="Specify a file written by `trimtab history export`, or a directory of snapshots.",
        )
    if name is not None and not name.strip():
        raise UsageFaultError("--as is empty.", hint="Pass a cluster name, or omit --as.")
    past = CommandHistory.of(uri, config)
    take = import_snapshots if source.is_dir() else import_file
    count = take(past.store, source, name, STATUS)
    body = {"import": str(source), "history": past.place, "minutes": count}

    def show() -> None:
        print_line(f"{source}: {pluralize(count, 'new snapshot')} in {past.place}.")
        for one in _unconfigured(past, source, name):
            print_line(
                f"Commands accept the name {one}. For the pages, add a cluster of that name, "
                f"with its original addresses, to {past.config.file or 'trimtab.toml'} and run "
                "`trimtab dashboard --no-collect`, which contacts none of them."
            )

    return emit(Answer(body, show), as_json=as_json)


def _unconfigured(past: CommandHistory, source: Path, name: str | None) -> list[str]:
    """Return the imported names that no configured cluster has."""
    if name is None and source.is_file():
        with Archive(source, past.store.location.kinds) as archive:
            name = archive.contents.cluster
    known = {cluster.name for cluster in past.config.clusters}
    return [one for one in ([name] if name else past.store.clusters()) if one not in known]


@app.command()
def compact(
    cluster: Annotated[
        str | None, typer.Argument(metavar="CLUSTER", help="Cluster name; default: all.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Merge small files; apply the age and size limits.

    Collectors do this automatically.
    """
    past = CommandHistory.of(uri, config)
    if cluster is not None:
        past.span_of(cluster)
    names = [cluster] if cluster is not None else past.store.clusters()
    rows: list[tuple[str, ...]] = []
    outcomes: list[dict[str, Any]] = []
    failed = False
    for name in names:
        try:
            done = history.keep_in_order(past.config, past.store, name)
        except OpsError as exc:
            failed = True
            note(f"{name}: {exc}")
            outcomes.append({"cluster": name, "error": exc.as_json()})
            continue
        outcomes.append(
            {
                "cluster": name,
                "hours": done.hours,
                "dropped": list(done.days),
                "bytes": done.bytes,
                "paused": done.paused,
            }
        )
        if done.paused:
            note(f"{name}: {done.paused}")
        rows.append((name, str(done.hours), str(len(done.days)), format_bytes(done.bytes)))
    body = {"history": past.place, "clusters": outcomes}

    def show() -> None:
        if not names:
            print_line(f"No history is recorded in {past.place}.")
        table(("cluster", "hours merged", "days deleted", "size"), rows)

    code = EXIT_REFUSED if failed else EXIT_DONE
    return emit(Answer(body, show, code), as_json=as_json)


@app.command()
def repair(
    cluster: Annotated[
        str | None, typer.Argument(metavar="CLUSTER", help="Cluster name; default: all.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply the repairs; default: preview.")
    ] = False,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Repair damaged files of the history; report losses.

    Quarantine damaged files and restore rows.
    """
    past = CommandHistory.of(uri, config)
    problems = past.store.problems(cluster)
    if cluster is not None and not problems and cluster not in (clusters := past.store.clusters()):
        raise UnknownNameError.of("recorded cluster", cluster, clusters, place=past.place)
    steps = past.store.repair(problems, services.now()) if apply else planned(problems)
    lost = [step.lost for step in steps]
    body = {
        "history": past.place,
        "applied": apply,
        "repairs": [
            asdict(step.problem) | {"action": step.action, "lost": step.lost, "sentence": str(step)}
            for step in steps
        ],
        "lost_rows": None if None in lost else sum(one or 0 for one in lost),
        "quarantine": str(Path(past.place) / QUARANTINE),
    }

    def show() -> None:
        if not steps:
            print_line(f"No damage in {past.place}.")
            return
        for one in steps:
            print_line(f"{one.action:8} {one}")
        if apply:
            print_line(f"Moved to {Path(past.place) / QUARANTINE}; nothing was deleted.")
        else:
            print_line("Nothing was changed. Stop the collectors, then run it with --apply.")

    code = EXIT_DONE if apply or not steps else EXIT_INCOMPLETE
    return emit(Answer(body, show, code), as_json=as_json)
