"""Commands that work on a snapshot directory: offline, nothing of a cluster is touched.

Old ``lastUpdate`` values are shown, never a reason to refuse: a snapshot is judged as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.findings.finding import Finding, findings_sentence, overall_state
from core.pulsar.lookup import lookup_topic
from core.pulsar.measures import TARGETS, Measures, Target, balance_sentence, measure
from core.pulsar.placement import STRATEGIES, place_bundle
from core.pulsar.rules.registry import assess
from core.pulsar.settings import (
    EffectiveSettings,
    find_release,
    parse_set_options,
)
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.pegasus import KIND as PEGASUS
from core.snapshot.store import PULSAR, load_manifest, load_snapshot
from core.units import format_ago, format_ratio
from dashboard.cli import answers
from dashboard.cli.output import Answer, UsageFaultError, emit, say, table
from dashboard.cli.source import active_settings


@dataclass(frozen=True)
class Assumptions:
    """What a what-if assumes instead of what the cluster says.

    Attributes:
        strategy: Placement strategy, ``None``: the one in force.
        overrides: Upstream key to typed value.
        release: Release line or version, ``None``: the brokers' own version decides.
    """

    strategy: str | None
    overrides: dict[str, object]
    release: str | None

    @classmethod
    def of(
        cls, strategy: str | None, settings: Sequence[str] | None, release: str | None
    ) -> Assumptions:
        """Parse the options.

        Raises:
            UsageFaultError: An unknown key, strategy or release, or a value that does not fit.
        """
        try:
            overrides = parse_set_options(settings or [])
            if release is not None:
                find_release(release)
            known = strategy_names()
            if strategy is not None and strategy.rpartition(".")[2] not in known:
                raise UnknownNameError.of("placement strategy", strategy, known)
        except InputError as exc:
            raise UsageFaultError(exc.message, hint=exc.hint) from exc
        return cls(strategy, overrides, release)

    def settings_of(self, snapshot: PulsarSnapshot) -> EffectiveSettings:
        """Return the cluster's settings with the assumptions on top."""
        return active_settings(snapshot, self.overrides, self.release)


@dataclass(frozen=True)
class OneBundle:
    """A bundle that is placed, and among which brokers.

    Attributes:
        bundle: Name.
        candidates: Broker ids with commas between; ``None``: all of them.
        with_filters: Whether the load manager's filters come first.
        non_persistent: Whether its topics are non-persistent; ``None``: as the snapshot shows.
    """

    bundle: str
    candidates: str | None
    with_filters: bool
    non_persistent: bool | None = None


def strategy_names() -> list[str]:
    """Return the names of the placement strategies there are."""
    return [strategy.name for strategy in STRATEGIES]


def health(directory: Path, target_code: str, *, as_json: bool) -> int:
    """``trimtab health``, of a cluster of any system."""
    kind = load_manifest(directory)[1].kind
    if kind == PEGASUS:
        from dashboard.cli.pegasus import state  # noqa: PLC0415  # commands start fast

        return state.health(str(directory), None, as_json=as_json)
    if kind != PULSAR:
        from dashboard.cli import systems  # noqa: PLC0415  # the same

        return systems.health(*systems.snapshot_in(directory), as_json=as_json)
    target = target_of(target_code)
    snapshot = load_snapshot(directory)
    settings = active_settings(snapshot)
    measures = measure(snapshot, settings)
    findings = assess(snapshot, settings, target=target)
    identity = (snapshot.snapshot_id, snapshot.manifest)
    return tell_health(identity, measures, findings, target, as_json=as_json)


def tell_health(
    identity: tuple[str, Manifest],
    measures: Measures,
    findings: tuple[Finding, ...],
    target: Target,
    *,
    as_json: bool,
) -> int:
    """Print what is known of a cluster's health, whoever judged it."""
    snapshot_id, manifest = identity
    body = {
        "cluster": manifest.cluster,
        "snapshot_id": snapshot_id,
        "taken_at": manifest.taken_at.isoformat(),
        "answer": balance_sentence(measures, target),
        "state": overall_state(findings),
        "target": target.code,
        "measures": answers.measures(measures),
        "findings": [answers.finding(item) for item in findings],
        "problems": [answers.problem(item) for item in manifest.problems],
    }

    def show() -> None:
        say(body["answer"])  # type: ignore[arg-type]  # a sentence
        say(f"{manifest.cluster}, {_age(manifest)}: {findings_sentence(findings)}.")
        say()
        table(
            ("measure", "mean", "maximum", "over the mean", "spread / mean", "worst broker"),
            [
                (
                    spread.label,
                    spread.text_of(spread.mean),
                    spread.text_of(spread.maximum),
                    format_ratio(spread.max_deviation_ratio),
                    format_ratio(spread.coefficient_ratio),
                    spread.worst or "unknown",
                )
                for spread in measures
            ],
        )
        for item in findings:
            say()
            say(f"{item.severity.upper():8}{item.sentence}")
            if item.hint:
                say(f"{'':8}{item.hint}")

    return emit(Answer(body, show), as_json=as_json)


def lookup(directory: Path, topic: str, *, as_json: bool) -> int:
    """``trimtab lookup``."""
    found = lookup_topic(load_snapshot(directory), topic)

    def show() -> None:
        nobody = "no owner" if found.is_owner_known else "unknown owner"
        say(f"{found.topic} -> {found.bundle} -> {found.owner or nobody}")
        say()
        for number, step in enumerate(found.steps, 1):
            say(f"{number}. {step.title}: {step.detail}")
        for text in found.notes:
            say(f"Note: {text}")

    return emit(Answer(answers.lookup(found), show), as_json=as_json)


def place(
    directory: Path,
    bundle: str,
    assumptions: Assumptions,
    candidates: str | None,
    *,
    with_filters: bool,
    as_json: bool,
) -> int:
    """``trimtab place``."""
    snapshot = load_snapshot(directory)
    settings = assumptions.settings_of(snapshot)
    view = LoadView.of(snapshot, settings)
    of = OneBundle(bundle, candidates, with_filters=with_filters)
    return tell_place(view, settings, of, assumptions, as_json=as_json)


def tell_place(
    view: LoadView,
    settings: EffectiveSettings,
    of: OneBundle,
    assumptions: Assumptions,
    *,
    as_json: bool,
) -> int:
    """Print who gets a bundle that a view has."""
    bundle = of.bundle
    chosen = _candidates(of.candidates, view.brokers)
    started = time.perf_counter()
    placement = place_bundle(
        view,
        bundle,
        settings,
        strategy=assumptions.strategy,
        candidates=chosen,
        with_filters=of.with_filters,
        non_persistent=of.non_persistent,
    )
    elapsed_ms = (time.perf_counter() - started) * 1000

    def show() -> None:
        if not placement.is_known:
            say(f"Where {bundle} would go is unknown: {placement.why}")
        elif not placement.distribution:
            say(f"No broker would take {bundle}: {placement.why}")
        else:
            say(f"{bundle} would go to ({placement.strategy}):")
            table(
                ("broker", "probability", placement.score_label or "score"),
                [
                    (broker, format_ratio(p), _score(placement.scores.get(broker)))
                    for broker, p in sorted(
                        placement.distribution.items(), key=lambda item: -item[1]
                    )
                ],
            )
        if placement.ruled_out:
            say()
            table(("not chosen", "why"), list(placement.ruled_out.items()))
        for text in placement.notes:
            say(f"Note: {text}")

    return emit(Answer(answers.placement(placement, elapsed_ms), show), as_json=as_json)


def target_of(code: str) -> Target:
    """Return a target by its code.

    Raises:
        UsageFaultError: There is none of that name.
    """
    for target in TARGETS:
        if target.code == code:
            return target
    unknown = UnknownNameError.of("target", code, [target.code for target in TARGETS])
    raise UsageFaultError(unknown.message, hint=unknown.hint)


def _candidates(text: str | None, known: Sequence[str]) -> list[str] | None:
    if text is None:
        return None
    if not known:
        raise IncompleteSnapshotError("The snapshot holds no brokers.")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageFaultError("--candidates names no broker.", hint="Write --candidates A,B.")
    for name in names:
        if name not in known:
            unknown = UnknownNameError.of("broker", name, known, place="the snapshot")
            raise UsageFaultError(unknown.message, hint=unknown.hint)
    return names


def _age(manifest: Manifest) -> str:
    age_s = (datetime.now(tz=UTC) - manifest.taken_at).total_seconds()
    return f"taken {format_ago(age_s)}" if age_s >= 0 else format_ago(age_s)


def _score(value: Any) -> str:
    return "unknown" if value is None else f"{value:,.4g}"
