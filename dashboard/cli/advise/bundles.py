"""``trimtab advise bundles`` and ``compaction``: what they compute and how they answer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from core.errors import UnknownNameError
from core.planning.advisors.bundle_reasons import BundleLimits, Demand, advise_bundles
from core.planning.advisors.retention import CompactionRule, fate_of_log
from core.pulsar.settings import EffectiveSettings
from core.snapshot.store import load_snapshot
from core.units import format_ratio
from dashboard.cli.output import Answer, UsageFaultError, emit, say, table
from dashboard.cli.releases import active_settings
from dashboard.presenters.advisors_facts import NamespaceFacts, namespace_facts

_MOST_SHOWN = 16


@dataclass(frozen=True, kw_only=True)
class BundleCountRequest:
    """What is asked of ``trimtab advise bundles``; ``None``: from the snapshot, or none."""

    brokers: int | None
    topics: int | None
    clients: int | None
    rate: float | None
    throughput: float | None
    within: float
    max_bundles: int | None
    snapshot: str | None
    namespace: str | None


def bundles(request: BundleCountRequest, *, as_json: bool) -> int:
    """``trimtab advise bundles``: how many, and why."""
    facts, settings = _live(request)
    limits = BundleLimits.of(settings)
    if request.max_bundles is not None:
        limits = dataclasses.replace(limits, maximum=request.max_bundles)
    advice = advise_bundles(_demand(request, facts), limits)
    present = len(facts.bundles) if facts else None
    body = {
        "bundles": advice.bundles,
        "present": present,
        "is_even": advice.is_even,
        "reasons": [dataclasses.asdict(one) for one in advice.reasons],
        "tried": [dataclasses.asdict(one) for one in advice.tried],
        "sentence": advice.sentence,
    }

    def show() -> None:
        say(advice.sentence if present is None else f"{advice.sentence} It has {present}.")
        table(
            ("reason", "asks for", "bundles", "arithmetic"),
            [
                (one.name, one.bound, "" if one.bundles is None else str(one.bundles), one.formula)
                for one in advice.reasons
            ],
        )
        table(
            ("bundles", "per broker", "a move changes", "busiest at best above the mean"),
            [
                (
                    str(one.bundles),
                    f"{one.per_broker:.1f}",
                    format_ratio(one.step_ratio),
                    format_ratio(one.reachable_ratio),
                )
                for one in advice.tried[-_MOST_SHOWN:]
            ],
        )
        say("Topics are assumed alike, at places by chance.")

    return emit(Answer(body, show), as_json=as_json)


def _live(request: BundleCountRequest) -> tuple[NamespaceFacts | None, EffectiveSettings]:
    """Take the namespace and the settings of the snapshot; defaults where none is named."""
    if (request.snapshot is None) != (request.namespace is None):
        raise UsageFaultError(
            "A namespace is one of a snapshot.", hint="Give --snapshot and --namespace together."
        )
    if request.snapshot is None or request.namespace is None:
        if request.brokers is None or request.topics is None:
            raise UsageFaultError(
                "The number of brokers and topics is not given.",
                hint="Give --brokers and --topics, or --snapshot and --namespace.",
            )
        return None, EffectiveSettings.defaults()
    snapshot = load_snapshot(Path(request.snapshot))
    facts = namespace_facts(snapshot.bundles, request.namespace, snapshot.brokers.num_rows)
    if not facts.bundles:
        known = pc.unique(snapshot.bundles["namespace"]).to_pylist()
        raise UnknownNameError.of("namespace", request.namespace, known, place=request.snapshot)
    return facts, active_settings(snapshot)


def _demand(request: BundleCountRequest, facts: NamespaceFacts | None) -> Demand:
    """Fill what is not given with what the snapshot shows; what nobody knows asks for nothing."""
    shown: dict[str, float] = {}
    if facts is not None:
        shown = {
            "brokers": facts.brokers,
            "topics": facts.topics or 0,
            "clients": facts.clients or 0,
            "rate": (facts.msgs_in or 0.0) + (facts.msgs_out or 0.0),
            "throughput": (facts.bytes_in or 0.0) + (facts.bytes_out or 0.0),
        }
    given = {name: getattr(request, name) for name in ("brokers", "topics", "clients")}
    given |= {"rate": request.rate, "throughput": request.throughput}
    held = shown | {name: value for name, value in given.items() if value is not None}
    return Demand(
        brokers=int(held["brokers"]),
        topics=int(held["topics"]),
        clients=int(held.get("clients", 0)),
        msg_rate=held.get("rate", 0.0),
        bytes_per_s=held.get("throughput", 0.0),
        within=request.within,
    )


def compaction(live: float, minor: float, major: float, *, as_json: bool) -> int:
    """``trimtab advise compaction``: what becomes of an entry log."""
    rule = CompactionRule(minor_threshold=minor, major_threshold=major)
    fate = fate_of_log(rule, live)
    body = {**dataclasses.asdict(fate), "dead_for_good_ratio": 1 - major}

    def show() -> None:
        within = "" if fate.within_s is None else f" within {fate.within_s:,.0f} s"
        say(
            f"{fate.action}{within}: {format_ratio(fate.freed_ratio)} of the log comes back, "
            f"{format_ratio(fate.rewritten_ratio)} is written again."
        )
        say(f"Up to {format_ratio(1 - major)} of the disk may hold dead data for good.")

    return emit(Answer(body, show), as_json=as_json)
