"""Capture and watch clusters: ``dashboard``, ``check``, ``collect``, ``capture``.

Clients come from :mod:`dashboard.services`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.errors import OpsError
from core.units import pluralize
from dashboard import services
from dashboard.cli.config import configured, must_name_clusters, read_config
from dashboard.cli.options import MAX_PORT, Config, Json
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_REFUSED,
    Answer,
    UsageFaultError,
    emit,
    note,
    print_line,
    table,
)
from dashboard.cli.supervisor import (
    READY_S,
    Child,
    Supervisor,
    answers,
    end_with_parent,
    free_port,
    reachable,
    shutting_down,
)
from dashboard.systems import part

if TYPE_CHECKING:
    from dashboard.services.history import Checked

app = typer.Typer()

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)?\Z")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


@app.command()
def dashboard(
    config: Config = None,
    port: Annotated[
        int,
        typer.Option(min=1, max=MAX_PORT, help="Port of the pages, or the next free port."),
    ] = 8501,
    collect: Annotated[bool, typer.Option(help="Run a collector.")] = True,
    worker: Annotated[bool, typer.Option(help="Run a worker.")] = True,
    jobs: Annotated[bool, typer.Option(help="Run a job server.")] = True,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = False,
) -> int:
    """Serve the pages, collect clusters and apply plans."""
    chosen = services.config_path(config)
    loaded = read_config(chosen)
    must_name_clusters(loaded, chosen)
    port = free_port(port)
    services.keep_private(loaded.state_dir.resolve())
    with (
        shutting_down(threading.Event()) as stop,
        Supervisor(loaded.state_dir.resolve() / "logs", stop, log_format=loaded.log_format) as all_,
    ):
        try:
            address = loaded.pages.address
            pages = start_pages(all_, chosen, port, loaded.pages.allowed_hosts, address)
            if collect:
                start_collector(all_, chosen)
            if worker:
                start_worker(all_, chosen)
            if jobs:
                start_jobs(all_, chosen)
            open_when_ready(all_, pages, port, address, open_browser=browser)
            note("Stop with Ctrl-C.")
            all_.watch()
        except KeyboardInterrupt:
            pass
    note_open_runs(chosen)
    note("Ended.")
    return EXIT_DONE


def note_open_runs(path: Path | None) -> None:
    """Note how many runs are left open; a journal that cannot be read does not matter."""
    with contextlib.suppress(OpsError):
        config = read_config(path)
        journal = services.journal(config)
        count = sum(len(journal.open_runs(cluster.name)) for cluster in config.clusters)
        if count:
            note(f"Open: {pluralize(count, 'run')}. The next worker continues.")


@app.command()
def check(config: Config = None, as_json: Json = False) -> int:
    """Check the configuration and every endpoint.

    Show the fix for every failure.
    """
    from dashboard.services import access  # noqa: PLC0415  # the supervisor needs none of it
    from dashboard.services.history import check_history, check_journal  # noqa: PLC0415  # the same

    loaded = configured(config)
    results = {cluster.name: services.check(loaded, cluster) for cluster in loaded.clusters}
    history, journal = check_history(loaded), check_journal(loaded)
    warnings = services.exposed_secrets(loaded) + access.unnamed_proxy(loaded)
    for warning in warnings:
        note(f"Warning: {warning}")
    all_fine = (
        history.ok and journal.ok and all(item.ok for items in results.values() for item in items)
    )
    body = {
        "ok": all_fine,
        "clusters": {name: [_tried(item) for item in items] for name, items in results.items()},
        "history": _tried(history),
        "journal": _tried(journal),
        "warnings": warnings,
    }

    def show() -> None:
        for name, items in {**results, "history and journal": [history, journal]}.items():
            print_line(name)
            table(
                ("", "check", "detail"),
                [("ok" if item.ok else "FAILED", item.what, item.detail) for item in items],
            )
            for item in items:
                if not item.ok and item.remedy:
                    print_line(f"To fix {item.what}: {item.remedy}")

    code = EXIT_DONE if body["ok"] else EXIT_REFUSED
    return emit(Answer(body, show, exit_code=code), as_json=as_json)


def _tried(item: Checked) -> dict[str, object]:
    return {"what": item.what, "ok": item.ok, "detail": item.detail, "remedy": item.remedy}


@app.command()
def collect(
    clusters: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER...", help="Cluster names; default: all.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Interval, for example 60s or 5min; 0: once."),
    ] = None,
    history: Annotated[bool, typer.Option(help="Record snapshots in the history.")] = True,
    config: Config = None,
) -> int:
    """Collect and record snapshots of clusters, until Ctrl-C.

    Also sends alerts; see [alerts] in trimtab.toml.
    """
    end_with_parent()
    loaded, chosen = chosen_clusters(config, clusters or ())
    if not history:
        unrecorded = loaded.history.model_copy(update={"is_recorded": False})
        loaded = loaded.model_copy(update={"history": unrecorded})
    period_s = duration_s(every) if every is not None else loaded.collect_every_s
    if period_s == 0:
        outcomes = [_collect_once(loaded, cluster) for cluster in chosen]
        return EXIT_DONE if all(outcomes) else EXIT_REFUSED
    from dashboard.services import alerts  # noqa: PLC0415  # the supervisor needs none of it

    with shutting_down(threading.Event()) as stop:
        watching = alerts.run_watch(loaded, stop, note)
        services.run_collector(loaded, chosen, period_s, stop, note)
        watching.join()
    return EXIT_DONE


def chosen_clusters(
    config: Path | None, names: Sequence[str]
) -> tuple[services.Config, list[services.Cluster]]:
    """Return the configuration and the clusters named, by default all.

    Raises:
        ConfigError: It cannot be read, or names no cluster.
        UnknownNameError: There is no such cluster.
    """
    loaded = configured(config)
    return loaded, [loaded.cluster(name) for name in names] or list(loaded.clusters)


def _collect_once(config: services.Config, cluster: services.Cluster) -> bool:
    """Save one snapshot; a cluster that cannot be read is named and does not stop the others."""
    from dashboard.services.history import record_stored  # noqa: PLC0415  # the supervisor needs none of it

    try:
        saved = services.keep(config, services.snapshot_of(config, cluster))
        note(f"{cluster.name}: {saved.path}")
        record_stored(config, cluster, saved)
    except OpsError as error:
        note(f"{cluster.name}: {error}")
        return False
    return True


@app.command()
def capture(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    out: Annotated[Path, typer.Option(help="Directory to create.")],
    topics_of: Annotated[
        list[str] | None,
        typer.Option(metavar="BUNDLE", help="Also fetch the topics of this bundle."),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Take one snapshot of a cluster."""
    from core.snapshot.store import save_snapshot  # noqa: PLC0415  # the supervisor needs none of it
    from dashboard.cli.systems import captured  # noqa: PLC0415  # the same

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageFaultError(f"{out} already exists.", hint="Specify a new directory.")
    loaded = configured(config)
    snapshot = services.snapshot_of(loaded, loaded.cluster(cluster))
    if topics_of:
        views = part(loaded.cluster(cluster).kind, "views")
        if views is None:
            raise UsageFaultError(f"{cluster} has no topics.", hint="Omit --topics-of.")
        snapshot = views.with_topics(loaded.cluster(cluster), snapshot, topics_of)
    save_snapshot(snapshot, out)
    return emit(captured(snapshot, out), as_json=as_json)


def duration_s(text: str) -> float:
    """Return seconds of ``60s``, ``5min``, ``2h``, ``500ms`` or a bare number of seconds.

    Raises:
        UsageFaultError: It is none of these.
    """
    match = _DURATION.match(text.strip())
    if match is None:
        raise UsageFaultError(
            f"{text!r} is not a duration.", hint="Use a duration such as 60s, 5min or 2h."
        )
    return float(match[1]) * _SECONDS[match[2]]


def own_command(*words: str) -> list[str]:
    """Return a command line of ours."""
    return [sys.executable, "-m", "dashboard.cli", *words]


def start_collector(all_: Supervisor, config: Path | None) -> Child:
    """Start the collector of every cluster."""
    words = [] if config is None else ["--config", str(config)]
    return all_.start("collector", own_command("collect", *words), is_restarted=True)


def start_worker(all_: Supervisor, config: Path | None) -> Child:
    """Start the worker of every cluster."""
    words = [] if config is None else ["--config", str(config)]
    return all_.start("worker", own_command("worker", *words), is_restarted=True)


def start_jobs(all_: Supervisor, config: Path | None) -> Child:
    """Start the job server, for the long computations of the pages."""
    words = [] if config is None else ["--config", str(config)]
    return all_.start("jobs", own_command("jobs", "serve", *words), is_restarted=True)


def start_pages(
    all_: Supervisor,
    config: Path | None,
    port: int,
    allowed_hosts: Sequence[str] = (),
    address: str = "127.0.0.1",
) -> Child:
    """Start the pages on an address; browsers may name loopback and these hosts."""
    environment = {} if config is None else {services.CONFIG_ENV: str(config)}
    return all_.start(
        "pages",
        [sys.executable, "-m", "dashboard.serve", address, str(port), *allowed_hosts],
        environment,
        is_restarted=True,
    )


def open_when_ready(
    all_: Supervisor, pages: Child, port: int, address: str = "127.0.0.1", *, open_browser: bool
) -> None:
    """Wait until the pages answer on their address, say where they are, open them."""
    all_.wait_until(
        lambda: answers(address, port, "/_stcore/health"), "The dashboard", READY_S, [pages]
    )
    place = f"http://{reachable(address)}:{port}"
    note(f"dashboard  {place}")
    if open_browser and _has_screen():
        webbrowser.open(place)


def _has_screen() -> bool:
    """Whether a browser would open in a window of its own, not in the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
