"""``trimtab explain``: why a broker sheds, why a bundle stays, what settings do to each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from core.diagnosis.pulsar.advice import pair_outcome, simulated_points
from core.errors import UnknownNameError
from core.findings.finding import Finding
from core.operations.shed.gates import gate, turning_point
from core.pulsar.explain import BrokerReason, BundleReason, Explanation
from core.pulsar.leader.prediction import FROM_SNAPSHOT, RoundPrediction
from core.pulsar.load import usage_sources
from core.pulsar.recent import recent_bundles
from core.pulsar.rules.combinations import combinations
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import BrokerTrace, Gate
from core.pulsar.shedding.gates import distance_in_words
from core.pulsar.shedding.what_if import TurningPoint, deciding_settings, is_searchable
from core.pulsar.split import SplitWhatIf, explain_split
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import format_ratio, severity_label
from dashboard import services
from dashboard.cli.config import configured
from dashboard.cli.options import Config, Json, RecentlyUnloaded, Release, Settings, Source
from dashboard.cli.output import Answer, UsageFaultError, emit, note, print_line, table
from dashboard.cli.progress import STATUS
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import pulsar_snapshot
from dashboard.cli.requests import read_list
from dashboard.cli.source import is_path
from dashboard.presenters.pulsar import leader_round
from dashboard.services.pulsar import leader

app = typer.Typer()

_MET = {True: "yes", False: "no", None: "unknown"}


@dataclass(frozen=True)
class _LeaderPrediction:
    """Prediction of the next round and its source.

    Attributes:
        sentence: For people.
        round: Of the leader observer, ``None`` where the snapshot is used.
    """

    sentence: str
    round: RoundPrediction | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the keys that all answers have."""
        return {
            "predicted_from": "snapshot" if self.round is None else "events",
            "predicted_from_sentence": self.sentence,
            "predicted_round": msgspec.to_builtins(self.round),
        }


def _predicted(
    source: str,
    assumptions: Assumptions,
    broker: str | None,
    bundle: str | None,
    config: Path | None,
) -> _LeaderPrediction:
    """Return the prediction of a live cluster's leader observer, or a note that there is none."""
    if is_path(source) or assumptions.overrides or assumptions.release:
        return _LeaderPrediction(FROM_SNAPSHOT)
    forecast = leader.leader_forecast(configured(config), source)
    now_s = services.now().timestamp()
    if forecast is None or not leader_round.is_shown(forecast, now_s) or not forecast.next_round:
        return _LeaderPrediction(leader_round.missing(forecast, now_s, is_past=False))
    next_round = forecast.next_round
    if bundle is not None:
        sentence = leader_round.bundle_headline(next_round, now_s, bundle)
    else:
        sentence = leader_round.headline(next_round, now_s, broker or "")
    more = "Gates and distances are computed from the snapshot."
    return _LeaderPrediction(f"{sentence}. {leader_round.FROM_EVENTS} {more}", next_round)


@app.command()
def explain(
    source: Source,
    broker: Annotated[str | None, typer.Option(metavar="ID", help="Explain this broker.")] = None,
    bundle: Annotated[
        str | None, typer.Option(metavar="BUNDLE", help="Explain this bundle.")
    ] = None,
    recently_unloaded: RecentlyUnloaded = None,
    settings: Settings = None,
    release: Release = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Explain the shedding decision of the next round.

    Also shows conflicting settings.
    """
    if broker is not None and bundle is not None:
        raise UsageFaultError("--broker and --bundle cannot be combined.", hint="Pass one of them.")
    assumptions = Assumptions.of(None, settings, release)
    named = read_list(recently_unloaded)
    snapshot = pulsar_snapshot(source, config)
    recent = recent_bundles(snapshot.bundles, named)
    for line in recent.notices:
        note(line)
    explanation = explanation_of(snapshot, assumptions, recent.names)
    assumed, of_release = assumptions.overrides, assumptions.release
    simulated = partial(
        simulated_points, snapshot, assumed=assumed, release=of_release, progress=STATUS
    )
    pair = partial(pair_outcome, snapshot, assumed=assumed, release=of_release)
    started = time.perf_counter()
    body: dict[str, Any] = {
        "strategy": explanation.strategy.name,
        "release": explanation.settings.release,
        "off": explanation.off or None,
        "sentence": explanation.sentence,
        "notes": list(explanation.decision.notes),
        **recent.as_json(),
    }
    predicted = _predicted(source, assumptions, broker, bundle, config)
    body |= predicted.as_json()
    if bundle is not None:
        reason = explanation.of_bundle(bundle)
        split = explain_split(snapshot, explanation.settings, bundle)
        turns = simulated(explanation.bundle_turning_points(bundle))
        body["bundle"] = _bundle_json(reason, split) | {"turning_points": _points_json(turns)}
        return _ended(
            body,
            started,
            lambda: _show_bundle(explanation, reason, split, turns),
            predicted,
            as_json=as_json,
        )
    if broker is not None:
        if broker not in explanation.view.brokers:
            place = "this snapshot"
            raise UnknownNameError.of("broker", broker, explanation.view.brokers, place=place)
        why = explanation.of_broker(broker)
        points = simulated(explanation.turning_points(broker))
        why = replace(why, otherwise=explanation.otherwise(broker, points, pair))
        source = usage_sources(snapshot.brokers, explanation.settings)[
            explanation.view.broker_row(broker)
        ]
        body["broker"] = _broker_json(why, points) | {"usage_source": source or None}
        return _ended(
            body,
            started,
            lambda: _show_broker(explanation, why, points, source),
            predicted,
            as_json=as_json,
        )
    apart = combinations(explanation.settings, snapshot.manifest.load_manager)
    sources = usage_sources(snapshot.brokers, explanation.settings)
    body["brokers"] = [
        _broker_json(explanation.of_broker(name), ()) | {"usage_source": source or None}
        for name, source in zip(explanation.view.brokers, sources, strict=True)
    ]
    body["combinations"] = [_combination_json(item) for item in apart]
    return _ended(
        body,
        started,
        lambda: _show_cluster(explanation, apart, sources),
        predicted,
        as_json=as_json,
    )


def _combination_json(item: Finding) -> dict[str, Any]:
    return {
        "code": item.code,
        "weight": item.severity,
        "keys": item.keys,
        "evidence": item.sentence,
        "consequence": item.consequence,
        "hint": item.hint,
        "wanted": item.fix.wanted,
        "sentence": item.text,
    }


def explanation_of(
    snapshot: PulsarSnapshot, assumptions: Assumptions, recent: Sequence[str]
) -> Explanation:
    """Return the next round of a snapshot's cluster under the assumptions."""
    settings = assumptions.settings_of(snapshot)
    return Explanation(
        view=LoadView.of(snapshot, settings),
        settings=settings,
        settings_of=lambda more: effective_settings(
            snapshot, overrides={**assumptions.overrides, **more}, release=assumptions.release
        ),
        recently_unloaded=tuple(recent),
        progress=STATUS,
    )


def _ended(
    body: dict[str, Any],
    started: float,
    show: Callable[[], None],
    predicted: _LeaderPrediction,
    *,
    as_json: bool,
) -> int:
    body["elapsed_ms"] = round((time.perf_counter() - started) * 1000, 3)

    def show_all() -> None:
        if predicted.round is not None:
            print_line(predicted.sentence)
        show()
        if predicted.round is None:
            print_line(predicted.sentence)

    return emit(Answer(body, show_all), as_json=as_json)


def _broker_json(why: BrokerReason, points: Sequence[TurningPoint]) -> dict[str, Any]:
    return {
        "broker": why.broker,
        "sheds": why.sheds,
        "sentence": why.sentence,
        "gates": [gate(one) for one in why.gates],
        "bundles": list(why.bundles),
        "skipped": dict(why.skipped),
        "turning_points": _points_json(points),
        "otherwise": why.otherwise,
    }


def _points_json(points: Sequence[TurningPoint]) -> list[dict[str, Any]]:
    return [turning_point(point) for point in points]


def _bundle_json(reason: BundleReason, split: SplitWhatIf) -> dict[str, Any]:
    return {
        "bundle": reason.bundle,
        "leaves": reason.leaves,
        "sentence": reason.sentence,
        "conditions": [asdict(condition) for condition in reason.conditions],
        "otherwise": reason.otherwise,
        "destinations": reason.destinations,
        "split": {
            "is_due": split.is_due,
            "sentence": split.when,
            "verdict": split.verdict.sentence,
        },
    }


def _off(explanation: Explanation) -> None:
    if explanation.off:
        print_line(f"Load shedding is off: {explanation.off} is false. If it were on:")


def _show_broker(
    explanation: Explanation, why: BrokerReason, points: Sequence[TurningPoint], source: str
) -> None:
    _off(explanation)
    print_line(why.sentence)
    if source:
        print_line(f"Usage: {source}.")
    table(
        ("gate", "open", "because"),
        [(gate.name, _state(gate), gate.sentence) for gate in why.gates],
    )
    for name in why.bundles:
        print_line(f"Selected: {name}.")
    for name, held in why.skipped:
        print_line(f"Skipped: {name}: {held}.")
    _turns(explanation, points, why.otherwise)
    _notes(explanation)


def _state(gate: Gate) -> str:
    return f"{_MET[gate.is_open]}, one is sufficient" if gate.is_alternative else _MET[gate.is_open]


def _turns(explanation: Explanation, points: Sequence[TurningPoint], otherwise: str) -> None:
    """Print the settings that change the decision, and the number of those that do not."""
    for point in points:
        print_line(point.text)
    if not is_searchable(explanation.view):
        print_line("The cluster is too large to try other settings.")
    elif not points:
        tried = len(deciding_settings(explanation.strategy))
        print_line(
            f"None of the {tried} settings of {explanation.strategy.name} alone changes this "
            f"decision. "
            f"{otherwise}"
        )


def _show_bundle(
    explanation: Explanation,
    reason: BundleReason,
    split: SplitWhatIf,
    turns: Sequence[TurningPoint],
) -> None:
    _off(explanation)
    print_line(reason.sentence)
    table(
        ("condition", "met", "distance", "because"),
        [
            (
                condition.name,
                _MET[condition.is_met],
                ""
                if condition.distance is None
                else distance_in_words(condition.distance, condition.unit),
                condition.sentence,
            )
            for condition in reason.conditions
        ],
    )
    for broker, chance in sorted(reason.destinations.items(), key=lambda item: -item[1])[:5]:
        print_line(f"Destination: {broker} ({format_ratio(chance)}).")
    _turns(explanation, turns, reason.otherwise)
    print_line()
    print_line(split.when)
    _notes(explanation)


def _show_cluster(
    explanation: Explanation, apart: Sequence[Finding], sources: Sequence[str]
) -> None:
    _off(explanation)
    print_line(explanation.sentence)
    usage = dict(zip(explanation.view.brokers, sources, strict=True))
    rows = [
        (*_verdict(explanation, trace), usage.get(str(trace.broker), ""))
        for trace in explanation.ranked()[:12]
    ]
    table(("broker", "verdict", "because", "usage"), rows)
    for item in apart:
        print_line(f"{severity_label(item.severity)}: {item.text} {item.hint}".rstrip())
    _notes(explanation)


def _verdict(explanation: Explanation, trace: BrokerTrace) -> tuple[str, str, str]:
    """Broker, verdict and why; what the load manager leaves alone is not shed."""
    broker = str(trace.broker)
    if not trace.sheds:
        return broker, "stays", trace.sentence
    why = explanation.of_broker(broker)
    if why.sheds:
        return broker, "sheds", trace.sentence
    return broker, "stays", why.sentence.partition(": ")[2].rstrip(".")


def _notes(explanation: Explanation) -> None:
    for text in explanation.decision.notes:
        print_line(f"Note: {text}")
