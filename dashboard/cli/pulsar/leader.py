"""``trimtab leader``: replay, predict and record the shedding rounds of a Pulsar leader."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from core.errors import InputError, OpsError, UnknownNameError
from core.pulsar.leader.events import MESSAGE, read_recording
from core.pulsar.leader.extensible import ExtensibleReplay
from core.pulsar.leader.prediction import Forecast, RoundPrediction
from core.pulsar.leader.recorded import replay_recording
from core.pulsar.leader.replay import PLACEMENT, LeaderReplay
from core.pulsar.placement import PAIRED_NAMES
from core.pulsar.setting_values import parse_upstream_value, typed_value
from core.pulsar.settings import RELEASES, known_setting
from core.pulsar.shedding import find_shedding_strategy
from core.units import format_ratio, pluralize
from dashboard import services
from dashboard.cli.clusters import duration_s
from dashboard.cli.config import configured
from dashboard.cli.options import Config, Json, Release
from dashboard.cli.output import EXIT_DONE, Answer, UsageFaultError, emit, note, print_line, table
from dashboard.cli.supervisor import shutting_down
from dashboard.presenters.pulsar import leader_round
from dashboard.services.pulsar import leader

_BUNDLE_WIDTH: Final = 44


app = typer.Typer()


@app.command()
def replay(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING.jsonl.gz", help="Recording, one event per line.")
    ],
    strategy: Annotated[str, typer.Option(metavar="NAME", help="Shedding strategy.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=JSON", help="Value of a setting in broker.conf."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="T", help="First round: epoch seconds or ISO 8601 (UTC)."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="T", help="Last round: epoch seconds or ISO 8601 (UTC)."),
    ] = None,
    release: Release = None,
    as_json: Json = False,
) -> int:
    """Replay the shedding rounds of a recording.

    Uses only its events.
    """
    start_s, end_s = _moment("--from", start), _moment("--to", end)
    if start_s is not None and end_s is not None and start_s > end_s:
        raise UsageFaultError(
            f"--from {start} is later than --to {end}.",
            hint="Swap them, or omit one.",
        )
    model = _model(strategy, settings or (), release)
    events = list(read_recording(recording))
    if not any(event.path for event in events):
        raise InputError(
            f"Recording {recording} has no znode events.",
            hint="Specify a file written by `trimtab leader record`.",
        )
    if isinstance(model, ExtensibleReplay) and not any(event.kind == MESSAGE for event in events):
        raise InputError(
            f"Recording {recording} has no load topic messages, which TransferShedder needs.",
            hint="Record a cluster with the extensible load manager; install the extra "
            "`extensible`.",
        )
    started = time.perf_counter()
    rounds = list(replay_recording(events, model, start_s=start_s, end_s=end_s))
    elapsed_ms = (time.perf_counter() - started) * 1000
    for warning in model.warnings():
        note(f"Warning: {warning}")
    body = {"rounds": [_as_json(one) for one in rounds], "elapsed_ms": elapsed_ms}
    return emit(Answer(body, lambda: _show_replay(rounds, model)), as_json=as_json)


def _model(
    name: str, settings: Iterable[str], release: str | None
) -> LeaderReplay | ExtensibleReplay:
    try:
        strategy = find_shedding_strategy(name)
        configured = configured_values(settings)
        if release is not None and release not in RELEASES:
            raise UnknownNameError.of("release line", release, RELEASES)
    except OpsError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    if strategy.manager == "extensible":
        return ExtensibleReplay(configured=configured, release=release)
    if strategy.name in PAIRED_NAMES:
        configured.setdefault(PLACEMENT, strategy.name)
    return LeaderReplay(strategy.name, configured=configured, release=release)


def configured_values(options: Iterable[str]) -> dict[str, object]:
    """Return ``{key: typed value}`` of ``--set KEY=JSON`` options as broker.conf would set them.

    A JSON text is read as broker.conf reads it, so that ``"60"`` and ``60`` are the same number.

    Raises:
        UnknownNameError: A key that no setting has.
        InputError: No ``=``, a value that is not JSON, or one of the wrong type.
    """
    values: dict[str, object] = {}
    for option in options:
        key, sign, text = option.partition("=")
        setting = known_setting(key.strip())
        try:
            value = json.loads(text) if sign else None
        except (ValueError, RecursionError):
            sign = ""
        if not sign:
            raise InputError(
                f"--set {option} is not a JSON value.",
                hint=f"Example: --set {key.strip()}={json.dumps(setting.default)}.",
            )
        if isinstance(value, str) and setting.kind not in ("text", "names"):
            if setting.kind == "bool" and value.lower() not in ("true", "false"):
                value = typed_value(setting, value)  # refuses it
            else:
                value = parse_upstream_value(setting, value)
        values[setting.key] = typed_value(setting, value)
    return values


def _moment(option: str, text: str | None) -> float | None:
    """Return seconds since the epoch.

    Raises:
        UsageFaultError: It is neither a number nor ISO 8601.
    """
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
            seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
        except (ValueError, OverflowError):
            seconds = math.nan
    if not math.isfinite(seconds):
        raise UsageFaultError(
            f"{option} {text} is not a time.",
            hint="Use seconds since the epoch (1795411911.9) or ISO 8601 (2026-11-23T05:31:51, "
            "UTC unless an offset is given).",
        )
    return seconds


def _as_json(prediction: RoundPrediction) -> dict[str, Any]:
    return {
        "t": round(prediction.at_s, 3),
        "leader": prediction.leader,
        "selected": list(prediction.selected),
        "unloaded": list(prediction.unloaded),
    }


def _show_replay(rounds: list[RoundPrediction], model: LeaderReplay | ExtensibleReplay) -> None:
    if not rounds:
        print_line("No shedding round began in the requested part of the recording.")
        return
    rows: list[tuple[str, ...]] = []
    for one in rounds:
        when = f"{datetime.fromtimestamp(one.at_s, UTC):%m-%d %H:%M:%S.%f}"[:-3]
        rows += [
            (when if not at else "", _cut(bundle.bundle), _fate(bundle.destinations))
            for at, bundle in enumerate(one.bundles)
        ] or [(when, "idle", "")]
    table(("round (UTC)", "selected bundle", "unloaded to"), rows)
    selected = sum(len(one.selected) for one in rounds)
    unloaded = sum(len(one.unloaded) for one in rounds)
    print_line(
        f"{model.strategy.name}: {pluralize(len(rounds), 'round')}, "
        f"{pluralize(selected, 'bundle')} selected, {unloaded} unloaded."
    )


def _cut(name: str) -> str:
    return name if len(name) <= _BUNDLE_WIDTH else f"...{name[3 - _BUNDLE_WIDTH :]}"


def _fate(destinations: dict[str, float]) -> str:
    """Return the most likely destination; a dash if the bundle is not unloaded."""
    if not destinations:
        return "-"
    best = max(destinations, key=lambda name: (destinations[name], name))
    return best if destinations[best] == 1.0 else f"{best}?"


@app.command("next")
def next_round(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the next shedding round that the collector predicts."""
    loaded = configured(config)
    led_cluster = _led_cluster(loaded, cluster)
    forecast = leader.leader_forecast(loaded, led_cluster.name)
    now_s = services.now().timestamp()
    if forecast is None:
        raise InputError(
            leader_round.missing(None, now_s, is_past=False),
            hint=f"Start `trimtab dashboard` or `trimtab collect {cluster}`.",
        )
    if not leader_round.is_shown(forecast, now_s):
        note(leader_round.missing(forecast, now_s, is_past=False))
    body = msgspec.to_builtins(forecast)
    return emit(Answer(body, lambda: _show_forecast(forecast, now_s)), as_json=as_json)


def accuracy_rows(forecast: Forecast) -> list[tuple[str, ...]]:
    """Return the measured accuracy as rows of a table."""
    return [
        (
            f"{one.lead_s:g} s",
            f"{one.active_exact} of {one.active}",
            f"{one.idle}",
            f"{one.hits} of {one.predicted}",
            f"{one.hits} of {one.actual}",
        )
        for one in forecast.accuracy
    ]


ACCURACY_COLUMNS: Final = (
    *("lead time", "active rounds exact", "idle rounds"),
    *("predicted moves that happened", "actual moves predicted"),
)


def _show_forecast(forecast: Forecast, now_s: float) -> None:
    prediction = forecast.next_round
    if prediction is not None and leader_round.is_shown(forecast, now_s):
        when = datetime.fromtimestamp(prediction.at_s, UTC)
        print_line(f"{leader_round.headline(prediction, now_s)} ({when:%H:%M:%S} UTC).")
        rows: list[tuple[Any, ...]] = [
            (
                format_ratio(one.share) if prediction.has_shares else "-",
                one.bundle,
                one.broker,
                max(one.destinations, key=lambda name: one.destinations[name], default="-"),
            )
            for one in sorted(prediction.bundles, key=lambda one: not one.destinations)
        ]
        table(("share", "bundle", "from", "to"), rows)
        for warning in leader_round.notes(prediction):
            print_line(f"Note: {warning}")
    if forecast.accuracy:
        print_line(leader_round.measured_note(forecast, now_s))
        table(ACCURACY_COLUMNS, accuracy_rows(forecast))


@app.command()
def record(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.jsonl.gz", help="File to create; .gz compresses it.")
    ],
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="DURATION", help="Duration, for example 20min; default: until Ctrl-C."
        ),
    ] = None,
    config: Config = None,
) -> int:
    """Record the znodes that the leader uses.

    Records every change.
    """
    for_s = None if duration is None else duration_s(duration)
    if for_s == 0:
        raise UsageFaultError(
            "--for must be above 0.", hint="Use a duration such as 10min, or omit it."
        )
    led_cluster = _led_cluster(configured(config), cluster)

    def begun(count: int) -> None:
        note(
            f"{cluster}: {pluralize(count, 'znode')} read; recording into {out}. Stop with Ctrl-C."
        )

    with shutting_down(threading.Event()) as stop:
        events = leader.record_leader(led_cluster, out, stop, begun, for_s)
    note(f"{out}: {pluralize(events, 'event')}.")
    return EXIT_DONE


def _led_cluster(config: services.Config, name: str) -> services.Cluster:
    """Return a cluster whose leader sheds.

    Raises:
        ConfigError: There is none of that name.
        UsageFaultError: It is of another system.
    """
    cluster = config.cluster(name)
    if cluster.kind != "pulsar":
        raise UsageFaultError(
            f"Cluster {name} is a {cluster.kind.capitalize()} cluster; only Pulsar has a leader "
            "broker.",
            hint="Specify a Pulsar cluster.",
        )
    return cluster
