"""What ``trimtab leader replay`` does."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from core.errors import InputError, OpsError, UnknownNameError
from core.pulsar.leader.events import MESSAGE, read_recording
from core.pulsar.leader.extensible import ExtensibleReplay
from core.pulsar.leader.prediction import RoundPrediction
from core.pulsar.leader.recorded import replay_recording
from core.pulsar.leader.replay import PLACEMENT, LeaderReplay
from core.pulsar.setting_values import parse_upstream_value, typed_value
from core.pulsar.settings import RELEASES, known_setting
from core.pulsar.shedding import find_shedding_strategy
from core.units import pluralize
from dashboard.cli.output import Answer, UsageFaultError, emit, note, say, table

_OF_TOPICS: Final = "TransferShedder"
_PAIRED: Final = "AvgShedder"
_BUNDLE_WIDTH: Final = 44


@dataclass(frozen=True)
class ReplayRequest:
    """What a replay computes.

    Attributes:
        strategy: Class name of the shedding strategy, short or full.
        settings: ``KEY=JSON`` texts.
        start: First round wanted, as text; ``None``: the first one.
        end: Last round wanted; ``None``: the last one.
        release: Release line; ``None``: what most brokers run.
    """

    strategy: str
    settings: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    release: str | None = None


def replay(recording: Path, request: ReplayRequest, *, as_json: bool) -> int:
    """``trimtab leader replay``: every shedding round that the events of a recording imply."""
    start_s, end_s = _moment("--from", request.start), _moment("--to", request.end)
    if start_s is not None and end_s is not None and start_s > end_s:
        raise UsageFaultError(
            f"--from {request.start} is later than --to {request.end}.",
            hint="Swap them, or leave one out.",
        )
    model = _model(request)
    events = list(read_recording(recording))
    if not any(event.path for event in events):
        raise InputError(
            f"Recording {recording} has no znode events.",
            hint="Name a file that `trimtab leader record` wrote.",
        )
    if isinstance(model, ExtensibleReplay) and not any(one.kind == MESSAGE for one in events):
        raise InputError(
            f"Recording {recording} has no messages of system topics, which TransferShedder "
            "decides by.",
            hint="Record a cluster of the extensible load manager, with the extra `extensible`.",
        )
    started = time.perf_counter()
    rounds = list(replay_recording(events, model, start_s=start_s, end_s=end_s))
    elapsed_ms = (time.perf_counter() - started) * 1000
    for warning in model.warnings():
        note(f"warning: {warning}")
    body = {"rounds": [_as_json(one) for one in rounds], "elapsed_ms": elapsed_ms}
    return emit(Answer(body, lambda: _show(rounds, model)), as_json=as_json)


def _model(request: ReplayRequest) -> LeaderReplay | ExtensibleReplay:
    try:
        strategy = find_shedding_strategy(request.strategy)
        configured = configured_values(request.settings)
        if request.release is not None and request.release not in RELEASES:
            raise UnknownNameError.of("release line", request.release, RELEASES)
    except OpsError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    if strategy.name == _OF_TOPICS:
        return ExtensibleReplay(configured=configured, release=request.release)
    if strategy.name == _PAIRED:
        configured.setdefault(PLACEMENT, strategy.name)
    return LeaderReplay(strategy.name, configured=configured, release=request.release)


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
        except ValueError:
            sign = ""
        if not sign:
            raise InputError(
                f"--set {option} has no JSON value.",
                hint=f"Write --set {key.strip()}={json.dumps(setting.default)}, for example.",
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
            hint="Write seconds since the epoch (1795411911.9) or ISO 8601 "
            "(2026-11-23T05:31:51, UTC unless an offset is given).",
        )
    return seconds


def _as_json(one: RoundPrediction) -> dict[str, Any]:
    return {
        "t": round(one.at_s, 3),
        "leader": one.leader,
        "selected": list(one.selected),
        "unloaded": list(one.unloaded),
    }


def _show(rounds: list[RoundPrediction], model: LeaderReplay | ExtensibleReplay) -> None:
    if not rounds:
        say("No shedding round began in the recording, or in the part of it that was requested.")
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
    say(
        f"{model.strategy.name}: {pluralize(len(rounds), 'round')}, "
        f"{pluralize(selected, 'bundle')} selected, {unloaded} unloaded."
    )


def _cut(name: str) -> str:
    return name if len(name) <= _BUNDLE_WIDTH else f"...{name[3 - _BUNDLE_WIDTH :]}"


def _fate(destinations: dict[str, float]) -> str:
    """Return the likeliest destination; a dash if the bundle is not unloaded."""
    if not destinations:
        return "-"
    best = max(destinations, key=lambda name: (destinations[name], name))
    return best if destinations[best] == 1.0 else f"{best}?"
