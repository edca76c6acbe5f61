"""``trimtab split``: what splitting a bundle would do, offline on a snapshot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import UnknownNameError
from core.ids import FULL_UPPER
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.split import SplitSpec, build_split_plan
from core.pulsar.split import (
    ALGORITHMS,
    BY_HAND,
    SplitCondition,
    SplitPart,
    SplitWhatIf,
    explain_split,
)
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from core.units import format_bytes_per_s, format_msgs_per_s, format_ratio, severity_label
from dashboard.cli import plan_answers
from dashboard.cli.options import Config, Json, Release, Settings
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.plan_answers import refusal, write_plan
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.pulsar.source import Snapshot, pulsar_directory

_MET = {True: "yes", False: "no", None: "unknown"}

app = typer.Typer()


@app.command()
def split(
    snapshot: Snapshot,
    bundle: Annotated[
        str, typer.Option(metavar="BUNDLE", help="Bundle, tenant/namespace/0xLOW_0xHIGH.")
    ],
    algorithm: Annotated[
        str | None, typer.Option(help="Split algorithm; default: the brokers'.")
    ] = None,
    positions: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Positions (hex) for specified_positions_divide."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the plan to a file.")
    ] = None,
    unload_parts: Annotated[
        bool, typer.Option("--unload", help="Also unload the new bundles.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the plan).")] = "",
    settings: Settings = None,
    release: Release = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Preview a split of a bundle: positions, load, effect."""
    spec = SplitSpec(
        algorithm=algorithm, positions=parse_positions(positions), is_unloaded=unload_parts
    )
    assumptions = Assumptions.of(None, settings, release)
    if spec.algorithm is not None and spec.algorithm not in ALGORITHMS:
        unknown = UnknownNameError.of("split algorithm", spec.algorithm, ALGORITHMS)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    _check_positions(spec.algorithm, spec.positions)
    loaded = load_snapshot(pulsar_directory(snapshot, config))
    effective = assumptions.settings_of(loaded)
    started = time.perf_counter()
    found = explain_split(
        loaded, effective, bundle, algorithm=spec.algorithm, positions=spec.positions
    )
    elapsed_ms = (time.perf_counter() - started) * 1000
    made = None if plan is None else _plan(loaded, bundle, spec, plan, reason)
    body = split_json(found, elapsed_ms)
    if made is not None:
        body |= {"plan": plan_answers.plan(made), "path": str(plan)}

    def show() -> None:
        _show(found)
        if made is not None:
            print_line()
            print_line(f"Plan {made.short_id}, valid until {made.expires_at:%H:%M:%S} UTC.")
            for item in made.diagnostics:
                print_line(f"{severity_label(item.severity)}: {item.sentence} {item.hint}".rstrip())
            print_line(f"Written to {plan}.")

    return emit(Answer(body, show), as_json=as_json)


def _plan(
    snapshot: PulsarSnapshot, bundle: str, spec: SplitSpec, plan_file: Path, reason: str
) -> Plan:
    """Make the plan on the current cluster, and write it; assumptions change no cluster."""
    terms = PlanOptions(now=datetime.now(tz=UTC), reason=reason)
    plan = build_split_plan(snapshot, [bundle], spec, terms)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    write_plan(plan_file, plan)
    return plan


def _check_positions(algorithm: str | None, positions: tuple[int, ...]) -> None:
    """Refuse positions that would be ignored, and the algorithm that cannot do without.

    Raises:
        UsageFaultError: One without the other.
    """
    if algorithm == BY_HAND and not positions:
        raise UsageFaultError(
            f"--algorithm {BY_HAND} needs --positions.",
            hint="Example: --positions 0x20000000,0x60000000.",
        )
    if positions and algorithm != BY_HAND:
        named = f"--algorithm {algorithm}" if algorithm else "the cluster's algorithm"
        raise UsageFaultError(
            f"--positions apply only to {BY_HAND}; {named} computes its positions.",
            hint=f"Pass --algorithm {BY_HAND}, or omit --positions.",
        )


def parse_positions(text: str | None) -> tuple[int, ...]:
    """Return positions such as ``0x40000000,1073741900``.

    Raises:
        UsageFaultError: One is no number, or not on the ring.
    """
    values = []
    for part in (text or "").split(","):
        if not part.strip():
            continue
        try:
            value = int(part.strip(), 0)
        except ValueError as exc:
            raise UsageFaultError(
                f"--positions {part.strip()!r} is not a number.",
                hint="Example: --positions 0x20000000,0x60000000.",
            ) from exc
        if not 0 <= value <= FULL_UPPER:
            raise UsageFaultError(
                f"--positions {part.strip()} is outside the hash range.",
                hint="The hash range is 0x00000000 to 0xffffffff.",
            )
        values.append(value)
    return tuple(values)


def split_json(what_if: SplitWhatIf, elapsed_ms: float) -> dict[str, Any]:
    """The JSON object of ``trimtab split``; ``null`` is unknown."""
    cost = what_if.cost
    return {
        "bundle": what_if.subject.bundle,
        "owner": what_if.subject.owner,
        "algorithm": what_if.algorithm,
        "positions": list(what_if.positions),
        "parts": [_part(part) for part in what_if.parts],
        "verdict": {
            "code": what_if.verdict.code,
            "sentence": what_if.verdict.sentence,
            "hint": what_if.verdict.hint,
        },
        "automatic": {"is_due": what_if.is_due, "sentence": what_if.when},
        "conditions": [_condition(item) for item in what_if.conditions],
        "cost": {
            "bundles_before": cost.bundles_before,
            "bundles_after": cost.bundles_after,
            "maximum_bundles": cost.maximum_bundles,
            "znodes_added": cost.znodes_added,
            "can_be_merged": False,
            "sentence": cost.sentence,
        },
        "notes": list(what_if.notes),
        "elapsed_ms": round(elapsed_ms, 3),
    }


def _part(part: SplitPart) -> dict[str, Any]:
    return {
        "range": part.range,
        "lower": part.lower,
        "upper": part.upper,
        "topics": part.topic_count,
        "sessions": part.sessions,
        "msg_rate_msgs_per_s": part.msg_rate,
        "throughput_bytes_per_s": part.throughput,
        "share": part.share,
        "is_assumed": part.is_assumed,
    }


def _condition(item: SplitCondition) -> dict[str, Any]:
    return {
        "name": item.name,
        "kind": item.kind,
        "setting": item.setting,
        "measured": item.measured,
        "threshold": item.threshold,
        "unit": item.unit,
        "is_met": item.is_met,
        "distance": item.distance,
        "sentence": item.sentence,
    }


def _show(what_if: SplitWhatIf) -> None:
    print_line(f"{what_if.subject.bundle} by {what_if.algorithm}: {what_if.verdict.sentence}")
    if what_if.verdict.hint:
        print_line(what_if.verdict.hint)
    if what_if.verdict.code == "assumed":
        print_line(
            f"`trimtab capture CLUSTER --topics-of {what_if.subject.bundle} ...` reads them."
        )
    print_line()
    table(
        ("part", "topics", "sessions", "rate", "traffic", "load share"),
        [
            (
                part.range,
                _number(part.topic_count),
                _number(part.sessions),
                format_msgs_per_s(part.msg_rate),
                format_bytes_per_s(part.throughput),
                format_ratio(part.share) + (" (assumed)" if part.is_assumed else ""),
            )
            for part in what_if.parts
        ],
    )
    print_line()
    print_line(what_if.when)
    table(("condition", "met", "kind"), _condition_rows(what_if.conditions))
    print_line()
    print_line(what_if.cost.sentence)
    for text in what_if.notes:
        print_line(f"Note: {text}")


def _condition_rows(conditions: Sequence[SplitCondition]) -> list[tuple[str, str, str]]:
    return [(item.sentence, _MET[item.is_met], item.kind) for item in conditions]


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
