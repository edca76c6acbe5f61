"""``trimtab quota``: shares of limits."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from core.errors import UnknownNameError
from core.planning.advisors.share_steps import simulated_steps
from core.planning.advisors.shares import FORMULAS, shares
from core.planning.limits.effects import amount
from core.planning.limits.groups import (
    QUANTITIES,
    enforcement_words,
    find_group,
    group_uses,
    period_of,
    shared_limit,
)
from core.planning.limits.namespaces import namespace_use
from core.units import format_ratio
from dashboard.cli.options import Config, Json
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.pulsar.source import active_settings, pulsar_snapshot

_MAX_SHOWN = 40


app = typer.Typer()


@app.command()
def quota(
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", help="Limit of the resource group (per second); negative: none."
        ),
    ] = None,
    usage: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Usage of each broker (per second).")
    ] = None,
    formula: Annotated[
        str, typer.Option(help="Formula: upstream (Pulsar's code) or published (design document).")
    ] = "upstream",
    snapshot: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER-or-SNAPSHOT",
            help="Cluster or snapshot; supplies the group's limit and usage.",
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Resource group of --snapshot.")] = None,
    of: Annotated[
        str, typer.Option(help="publish_msgs, publish_bytes, dispatch_msgs or dispatch_bytes.")
    ] = "publish_msgs",
    steps: Annotated[
        str | None,
        typer.Option(metavar="PERIODS:A,B,C;...", help="Simulate demand over time (per second)."),
    ] = None,
    period: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="resourceUsageTransportPublishIntervalInSecs (s), with --steps."
        ),
    ] = 60.0,
    tolerance: Annotated[
        float,
        typer.Option(metavar="PERCENT", help="Max unreported change (%), with --steps."),
    ] = 5.0,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Compute each broker's share of a resource group's limit."""
    if group is not None or snapshot is not None:
        return _live_quota(snapshot, group, of, config, limit=limit, usage=usage, as_json=as_json)
    if steps is not None:
        return _share_timeline(
            limit,
            steps,
            period_s=period,
            tolerance_percent=tolerance,
            usage=usage,
            as_json=as_json,
        )
    return _shares(limit, usage, formula, as_json=as_json)


def _shares(limit: float | None, usage: str | None, formula: str, *, as_json: bool) -> int:
    """``trimtab quota``: the share of each broker."""
    chosen = next((one for one in FORMULAS if one == formula), None)
    if chosen is None:
        unknown = UnknownNameError.of("formula", formula, FORMULAS)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    if limit is None or usage is None:
        raise UsageFaultError(
            "The limit and the usage of each broker are required.",
            hint="Pass --limit and --usage, or --snapshot and --group.",
        )
    used = _numbers(usage)
    started = time.perf_counter()
    found = shares(limit, used, chosen)
    elapsed_ms = (time.perf_counter() - started) * 1000
    given = [int(value) if chosen == "upstream" else value for value in found]
    body = {
        "limit": limit,
        "usage": used,
        "formula": chosen,
        "local": given,
        "elapsed_ms": elapsed_ms,
    }

    def show() -> None:
        if limit < 0:
            print_line("No limit: brokers do not throttle.")
            return
        rows = [
            (str(number), f"{use:,g}", f"{share:,.2f}" if chosen == "published" else f"{share:,}")
            for number, (use, share) in enumerate(zip(used, given, strict=True), 1)
        ]
        table(("broker", "uses", "local limit"), rows)
        print_line(f"Total: {sum(given):,.2f} of {limit:,g}.")

    return emit(Answer(body, show), as_json=as_json)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageFaultError(
            f"--usage {text!r} is not a list of numbers.", hint="Example: 10,50,30."
        ) from None


def _live_quota(
    source: str | None,
    group: str | None,
    quantity: str,
    config: Path | None,
    *,
    limit: float | None,
    usage: str | None,
    as_json: bool,
) -> int:
    """``trimtab quota --snapshot --group``: a group's limit by its live use."""
    if source is None or group is None or usage is not None or limit is not None:
        raise UsageFaultError(
            "--snapshot and --group must be used together, and set the limit and the usage.",
            hint="Pass both, without --limit and --usage.",
        )
    if quantity not in QUANTITIES:
        unknown = UnknownNameError.of("quantity", quantity, QUANTITIES)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    snapshot = pulsar_snapshot(source, config)
    settings = active_settings(snapshot)
    found = find_group(group_uses(snapshot, namespace_use(snapshot)), group, source)
    shared = shared_limit(snapshot, found, quantity, period_s=period_of(settings))
    holds, sentence = enforcement_words(settings)
    rows = [
        {"broker": name, "used": used, "upstream": int(mine), "published": published}
        for name, used, mine, published in zip(
            shared.brokers,
            shared.used.tolist(),
            shared.upstream.tolist(),
            shared.published.tolist(),
            strict=True,
        )
    ]
    body = {
        "group": found.name,
        "quantity": quantity,
        "unit": shared.quantity.unit,
        "limit": shared.limit,
        "namespaces": list(found.namespaces),
        "brokers": rows,
        "is_enforced": holds and shared.quantity.is_enforced,
        "note": sentence,
    }

    def show() -> None:
        unit = shared.quantity.unit
        table(
            ("broker", "uses", "local limit (upstream)", "local limit (published)"),
            [
                (
                    shared.brokers[at],
                    amount(float(shared.used[at]), unit),
                    _limit(float(shared.upstream[at]), unit),
                    _limit(float(shared.published[at]), unit),
                )
                for at in (-shared.used).argsort(kind="stable")[:_MAX_SHOWN].tolist()
            ],
        )
        together = amount(float(shared.used.sum()), unit)
        print_line(f"Total: {together} of {_limit(shared.limit, unit)} ({shared.quantity.title}).")
        print_line(sentence)

    return emit(Answer(body, show), as_json=as_json)


def _limit(value: float, unit: str) -> str:
    return "no limit" if value < 0 else amount(value, unit)


def _share_timeline(
    limit: float | None,
    steps: str,
    *,
    period_s: float,
    tolerance_percent: float,
    usage: str | None,
    as_json: bool,
) -> int:
    """``trimtab quota --steps``: demand over time, and the traffic that brokers admit."""
    if usage is not None:
        raise UsageFaultError("--steps replaces --usage.", hint="Omit --usage.")
    if limit is None:
        raise UsageFaultError("--steps needs --limit.", hint="Pass --limit.")
    found, used_limit = simulated_steps(
        limit,
        steps,
        period_s=period_s,
        tolerance_percent=tolerance_percent,
    )
    shares_shown = [[_finite(value) for value in row] for row in found.share.tolist()]
    body = {
        "limit": used_limit,
        "period_s": period_s,
        "tolerance_percent": tolerance_percent,
        "periods": [
            {"wanted": wanted, "used": used, "share": share, "reports": reports}
            for wanted, used, share, reports in zip(
                found.wanted.tolist(),
                found.used.tolist(),
                shares_shown,
                found.reports.tolist(),
                strict=True,
            )
        ],
        "held_back": float(found.held_back.sum()) * period_s,
    }

    def show() -> None:
        rows = [
            (
                f"{at * period_s:,.0f} s",
                _row(found.wanted[at].tolist()),
                _row(found.used[at].tolist()),
                _row(shares_shown[at]),
                "".join("x" if is_reported else "." for is_reported in found.reports[at].tolist()),
            )
            for at in range(len(found.wanted))
        ]
        table(("from", "wanted", "accepted", "next local limit", "reports"), rows)
        wanted = float(found.wanted.sum())
        held = float(found.held_back.sum()) / wanted if wanted else 0.0
        print_line(f"{format_ratio(held)} of the demand was throttled.")

    return emit(Answer(body, show), as_json=as_json)


def _finite(value: float) -> float | None:
    """Return a share, ``None`` without a limit: JSON has no endless numbers."""
    return value if math.isfinite(value) else None


def _row(values: Sequence[float | None]) -> str:
    shown = ["no limit" if value is None else f"{value:,.0f}" for value in values[:8]]
    return ", ".join(shown) + (" ..." if len(values) > 8 else "")
