"""The preview of a plan: the same steps, executed against nothing but the snapshot."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values, row_of
from core.errors import InvariantError, PlanConflictError
from core.plan.model import Plan
from core.pulsar.cluster import BrokerLoads
from core.pulsar.liveness import loads_of
from core.pulsar.load_transfer import (
    CARRIED,
    RESOURCES,
    LoadChange,
    TransferredLoad,
    carried_by,
    shift_of,
)
from core.pulsar.measures import Measures, measure, owned_bundle_counts
from core.pulsar.placement import STRATEGY_NAMES, Placement
from core.pulsar.plan.checks import OVERLOADED
from core.pulsar.plan.clients import ClientImpact, client_impact
from core.pulsar.plan.outcomes import Outcomes, PlacementRules, Scenario, carry_through
from core.pulsar.plan.policy.impact import policy_impact
from core.pulsar.plan.policy.state import with_policies
from core.pulsar.plan.project import project_scenario
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.steps.base import PulsarStep, policy_changes
from core.pulsar.steps.unload import UnloadBundle, unloads_of
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import format_demand, format_ratio

Floats = NDArray[np.float64]

QUANTITIES: Final[dict[str, tuple[str, ...]]] = {
    "throughput_bytes_per_s": ("msg_throughput_in", "msg_throughput_out"),
    "msg_rate_msgs_per_s": ("msg_rate_in", "msg_rate_out"),
    "bundle_count": ("bundle_count",),
    "topic_count": ("topic_count",),
    "client_count": ("producer_count", "consumer_count"),
}
"""What is compared besides usage, and of which columns each is the sum."""

_SHARED_NOTE: Final = (
    "Usage after is an estimate: a bundle is assumed to use its share of "
    "the broker's throughput per direction, and CPU and direct memory in "
    "proportion to traffic (cluster average); the destination's own limits "
    "then give its percentage."
)
_PARTS_NOTE: Final = (
    "The parts of a split that are unloaded are placed again, one by one; "
    "their destination and load are not included here."
)


def _before_after_schema() -> pa.Schema:
    units = {"throughput_bytes_per_s": "bytes/s", "msg_rate_msgs_per_s": "msgs/s"}
    fields = [
        pa.field("broker", pa.string(), nullable=False),
        pa.field("is_touched", pa.bool_(), nullable=False),
        pa.field("departures", pa.float64(), metadata={"unit": "bundles"}),
        pa.field("arrivals", pa.float64(), metadata={"unit": "bundles, expected"}),
    ]
    for name in ("usage_ratio", *QUANTITIES):
        unit = units.get(name, "ratio" if name == "usage_ratio" else "count")
        fields += [
            pa.field(f"{name}_{moment}", pa.float64(), metadata={"unit": unit})
            for moment in ("before", "after", "low", "high")
        ]
    return pa.schema(fields)


BEFORE_AFTER: Final = _before_after_schema()
"""One row a broker, in the snapshot's order. ``<quantity>_before`` is what the reports say,
``_after`` the expected value over all outcomes, ``_low`` and ``_high`` the extremes among them;
null where unknown. Quantities: ``usage_ratio`` (weighted maximum), ``throughput_bytes_per_s`` and
``msg_rate_msgs_per_s`` (in plus out), ``bundle_count`` (owned, movable), ``topic_count``,
``client_count`` (producers plus consumers)."""


@dataclass(frozen=True, slots=True)
class StepPreview:
    """One step, looked at.

    Attributes:
        step: The step itself.
        placement: Who gets the bundle, over all outcomes of the steps before it.
        clients: What it costs.
        command: The equivalent ``pulsar-admin`` line.
        rest: The equivalent ``curl`` line.
    """

    step: UnloadBundle
    placement: Placement
    clients: ClientImpact
    command: str
    rest: str


@dataclass(frozen=True, slots=True)
class OtherPreview:
    """One step that moves no bundle by itself, looked at.

    Attributes:
        step: The step itself: a split, a setting.
        sentence: What would be requested.
        clients: What it costs; ``None`` if no client reconnects.
        command: The equivalent ``pulsar-admin`` line.
        rest: The equivalent ``curl`` line.
        unloaded: Bundles whose clients reconnect.
    """

    step: PulsarStep
    sentence: str
    clients: ClientImpact | None
    command: str
    rest: str
    unloaded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preview:
    """Preview of a plan.

    Attributes:
        before_after: Table of :data:`BEFORE_AFTER`.
        steps: The unloads, in the plan's order.
        others: All other steps, in the plan's order; the load is shown as it is without them.
        clients: What the whole plan costs.
        measures_before: How even the load is.
        measures_after: How even it is in the most likely outcome.
        scenarios: The outcomes, most likely first.
        is_exact: All of them were followed; otherwise they were sampled.
        notes: What a person should know about how this was computed.
        overloads: A sentence for each broker that the plan takes over the overload limit; none
            where a finding of the plan names them, as of plans that set policies.
        is_undo: The plan undoes a run.
    """

    before_after: pa.Table = field(repr=False)
    steps: tuple[StepPreview, ...]
    clients: ClientImpact
    measures_before: Measures
    measures_after: Measures
    scenarios: tuple[Scenario, ...]
    is_exact: bool
    notes: tuple[str, ...]
    others: tuple[OtherPreview, ...] = ()
    overloads: tuple[str, ...] = ()
    is_undo: bool = False


@dataclass(frozen=True, slots=True)
class _Run:
    """A plan's steps, placed again on its snapshot."""

    settings: EffectiveSettings
    unloads: tuple[UnloadBundle, ...]
    rows: NDArray[np.int64]
    outcomes: Outcomes


def preview_plan(snapshot: PulsarSnapshot, plan: Plan) -> Preview:
    """Show what ``plan`` would do.

    Args:
        snapshot: The one the plan was made on.
        plan: Any plan, errored ones too: what they hold as steps is shown.
    Raises:
        PlanConflictError: The plan was made on another snapshot.
        UnknownNameError: A step names a bundle or a broker that the snapshot does not have.
        InvariantError: The projection does not conserve load (a bug of ours).
    """
    run = _run(snapshot, plan)
    carried = carried_by(snapshot, run.rows)
    shift = _shift(snapshot, run, carried)
    after = project_scenario(snapshot, run.rows, run.outcomes.most_likely)
    table = _before_after(snapshot, run.settings, shift)
    _check_counts(snapshot, after, shift)
    others = tuple(_others(snapshot, plan))
    notes = [*run.outcomes.notes, *([_SHARED_NOTE] if run.unloads else [])]
    if any(other.clients is not None for other in others):
        notes.append(_PARTS_NOTE)
    if carried.unknown_bundles:
        notes.append(
            f"The statistics of {len(carried.unknown_bundles)} bundles are unknown "
            f"and count as 0 ({', '.join(carried.unknown_bundles[:3])})."
        )
    unassigned = sum(placed.distribution == {} for placed in run.outcomes.placements)
    if unassigned:
        notes.append(
            f"{unassigned} bundles have no known destination: the totals exclude their load."
        )
    return Preview(
        before_after=table,
        steps=tuple(_steps(snapshot, run)),
        clients=client_impact(snapshot.bundles, _touched_rows(snapshot, run, others)),
        measures_before=measure(snapshot, run.settings),
        measures_after=measure(after, run.settings),
        scenarios=run.outcomes.scenarios,
        is_exact=run.outcomes.is_exact,
        notes=tuple(notes),
        others=others,
        is_undo=plan.undoes is not None,
        overloads=()
        if any(item.code == OVER_LIMIT for item in plan.diagnostics)
        else _overloads(table, run.settings, plan),
    )


OVER_LIMIT: Final = "over_limit"
"""Code of the finding that brokers are expected over the overload limit."""


def overload_limit(settings: EffectiveSettings) -> float:
    """Return the usage, 0..1, above which brokers count as overloaded."""
    return settings.number(OVERLOADED) / 100.0


def overloaded(before_after: pa.Table, limit: float) -> list[dict[str, Any]]:
    """Return the rows of brokers that get something and are expected over a limit, worst first.

    Args:
        before_after: Table of :data:`BEFORE_AFTER`.
        limit: Usage, 0..1.
    """
    gains = (pc.field("arrivals") > 0) & (pc.field("usage_ratio_after") > limit)
    rows = before_after.filter(pc.field("is_touched") & gains)
    order = [("usage_ratio_after", "descending"), ("broker", "ascending")]
    return [
        row
        for row in rows.sort_by(order).to_pylist()
        if (row["usage_ratio_before"] or 0.0) < row["usage_ratio_after"]
    ]


def describe_usage(row: Mapping[str, Any]) -> str:
    """Return ``b1:8080 is expected at 97% (41% now)`` of a row of :data:`BEFORE_AFTER`."""
    return (
        f"{row['broker']} is expected at {format_demand(row['usage_ratio_after'])} "
        f"({format_ratio(row['usage_ratio_before'])} now)"
    )


def _overloads(before_after: pa.Table, settings: EffectiveSettings, plan: Plan) -> tuple[str, ...]:
    """Name the brokers whose expected usage comes over the overload limit by the plan."""
    advice = (
        "The undo overloads it again."
        if plan.undoes is not None
        else "Choose another broker."
        if len(plan.steps) == 1
        else "Move fewer bundles, or choose another broker."
    )
    limit = overload_limit(settings)
    rows = before_after.filter(pc.field("is_touched") & (pc.field("usage_ratio_after") > limit))
    return tuple(
        f"{describe_usage(row)}, above the overload limit of {format_ratio(limit)}. {advice}"
        for row in rows.to_pylist()
        if not row["usage_ratio_before"] or row["usage_ratio_before"] <= limit
    )


def project(snapshot: PulsarSnapshot, plan: Plan) -> PulsarSnapshot:
    """Return the snapshot expected after the most likely outcome.

    Raises:
        PlanConflictError: The plan was made on another snapshot.
    """
    run = _run(snapshot, plan)
    return project_scenario(snapshot, run.rows, run.outcomes.most_likely)


def _run(snapshot: PulsarSnapshot, plan: Plan) -> _Run:
    if plan.snapshot_id != snapshot.snapshot_id:
        raise PlanConflictError(
            f"The plan was made on snapshot {plan.snapshot_id} of {plan.cluster}; this is "
            f"{snapshot.snapshot_id} of {snapshot.manifest.cluster}.",
            hint=f"Specify that snapshot, or the cluster ({plan.cluster}) for its current state.",
        )
    policy = plan.strategy
    settings = effective_settings(snapshot, overrides=policy.settings, release=policy.release)
    view = LoadView.of(_ground(snapshot, plan), settings)
    unloads = unloads_of(plan.steps)
    for step in unloads:
        view.broker_row(step.owner)
        if step.destination is not None:
            view.broker_row(step.destination)
    strategy = policy.name if policy.name in STRATEGY_NAMES else None
    outcomes = carry_through(PlacementRules(view, settings, strategy, policy.seed), unloads)
    rows = np.array([view.bundle_row(step.bundle) for step in unloads], np.int64)
    return _Run(settings, unloads, rows, outcomes)


def _shift(snapshot: PulsarSnapshot, run: _Run, carried: TransferredLoad) -> LoadChange:
    """Return the load changes in every scenario."""
    rows = {name: row for row, name in enumerate(snapshot.brokers["broker"].to_pylist())}
    scenarios = run.outcomes.scenarios
    ends = [[rows.get(str(end), -1) for end in one.destinations] for one in scenarios]
    return shift_of(
        carried,
        np.array(ends, np.int64).reshape(len(scenarios), -1),
        np.array([one.probability for one in scenarios]),
        [placed.distribution for placed in run.outcomes.placements],
        rows,
    )


def _ground(snapshot: PulsarSnapshot, plan: Plan) -> PulsarSnapshot:
    """Return the snapshot with the policies that are set before the first unload."""
    first = next((at for at, step in enumerate(plan.steps) if step.is_placed_by_cluster), 0)
    policies = policy_changes(plan.steps[:first])
    return with_policies(snapshot, policies) if policies else snapshot


def _steps(snapshot: PulsarSnapshot, run: _Run) -> list[StepPreview]:
    urls = _web_urls(snapshot)
    return [
        StepPreview(
            step=step,
            placement=placed,
            clients=client_impact(snapshot.bundles, [int(row)]),
            command=step.command_lines()[0],
            rest=rest_line(step, urls.get(step.owner)),
        )
        for step, placed, row in zip(run.unloads, run.outcomes.placements, run.rows, strict=True)
    ]


def _others(snapshot: PulsarSnapshot, plan: Plan) -> Iterator[OtherPreview]:
    urls = _web_urls(snapshot)
    anyone = next(iter(urls.values()), None)
    for step in plan.steps:
        if not isinstance(step, PulsarStep) or step.is_placed_by_cluster:
            continue
        unloaded = _unloaded_by(snapshot, step)
        yield OtherPreview(
            step=step,
            sentence=step.describe_dry_run(),
            clients=(
                client_impact(snapshot.bundles, _rows_of(snapshot, unloaded)) if unloaded else None
            ),
            command=step.command_lines()[0],
            rest=rest_line(step, anyone if step.owner is None else urls.get(step.owner)),
            unloaded=unloaded,
        )


def _unloaded_by(snapshot: PulsarSnapshot, step: PulsarStep) -> tuple[str, ...]:
    """Bundles that a step which is no unload has unloaded all the same."""
    isolating = [one for one in policy_changes([step]) if one.policy == "isolation"]
    if isolating:
        return policy_impact(snapshot, effective_settings(snapshot), isolating).unloaded
    return step.unloads


def _touched_rows(
    snapshot: PulsarSnapshot, run: _Run, others: Sequence[OtherPreview]
) -> NDArray[np.int64]:
    """Rows of all bundles whose clients reconnect."""
    unloaded = [bundle for other in others for bundle in other.unloaded]
    return np.concatenate([run.rows, _rows_of(snapshot, unloaded)])


def _rows_of(snapshot: PulsarSnapshot, bundles: Sequence[str]) -> NDArray[np.int64]:
    if not bundles:  # not worth an index of a million names
        return np.zeros(0, np.int64)
    rows = row_of(snapshot.bundles["bundle"], pa.chunked_array([bundles], pa.string()))
    return rows[rows >= 0]


def _web_urls(snapshot: PulsarSnapshot) -> dict[str, str]:
    """Broker id to web address, the plain one first; brokers without any are excluded."""
    columns = (snapshot.brokers[name].to_pylist() for name in ("broker", "web_url", "web_url_tls"))
    found = {name: plain or secure for name, plain, secure in zip(*columns, strict=True)}
    return {name: url for name, url in found.items() if url}


def _before_after(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, shift: LoadChange
) -> pa.Table:
    brokers, loads = snapshot.brokers, loads_of(snapshot)
    count = brokers.num_rows
    is_touched = np.zeros(count, np.bool_)
    is_touched[shift.touched] = True
    columns: dict[str, pa.Array] = {
        "broker": brokers["broker"].combine_chunks(),
        "is_touched": pa.array(is_touched),
        "departures": pa.array(_spread_out(count, shift.touched, shift.departures)),
        "arrivals": pa.array(_spread_out(count, shift.touched, shift.arrivals)),
    }
    measured = measure(snapshot, settings).usage.values
    moved = shift.delta[:, :, [CARRIED.index(name) for name in RESOURCES]]
    usage_after = BrokerLoads.of(brokers).usage_with(moved, settings, shift.touched)
    expected = shift.probability @ usage_after
    columns |= _quantity("usage_ratio", measured, shift, usage_after, expected)
    for name, parts in QUANTITIES.items():
        before = (
            owned_bundle_counts(snapshot)
            if name == "bundle_count"
            else sum(column_values(loads, part) for part in parts)
        )
        delta = sum(shift.delta[:, :, CARRIED.index(part)] for part in parts)
        mean = sum(shift.expected[:, CARRIED.index(part)] for part in parts)
        before = np.asarray(before, np.float64)
        start = before[shift.touched]
        columns |= _quantity(name, before, shift, start + np.asarray(delta), start + mean)
    return pa.Table.from_arrays([columns[name] for name in BEFORE_AFTER.names], schema=BEFORE_AFTER)


def _quantity(
    name: str, before: Floats, shift: LoadChange, outcomes: Floats, expected: Floats
) -> dict[str, pa.Array]:
    """Before, expected after, lowest and highest after; ``outcomes``: scenarios x touched."""
    after, low, high = before.copy(), before.copy(), before.copy()
    if shift.touched.size:
        after[shift.touched] = expected
        low[shift.touched] = outcomes.min(axis=0)
        high[shift.touched] = outcomes.max(axis=0)
    moments = {"before": before, "after": after, "low": low, "high": high}
    return {
        f"{name}_{moment}": pa.array(values, pa.float64(), mask=~np.isfinite(values))
        for moment, values in moments.items()
    }


def _spread_out(count: int, touched: NDArray[np.int64], values: Floats) -> Floats:
    whole = np.zeros(count)
    whole[touched] = values
    return whole


def _check_counts(before: PulsarSnapshot, after: PulsarSnapshot, shift: LoadChange) -> None:
    """Recount by ownership what the arithmetic moved: two methods must give the same."""
    recounted = owned_bundle_counts(after)[shift.touched]
    moved = (
        owned_bundle_counts(before)[shift.touched]
        + (shift.delta[0, :, CARRIED.index("bundle_count")])
    )
    if before.bundles.num_rows and np.abs(recounted - moved).max(initial=0.0) > 0.5:
        raise InvariantError("The projection counts bundles differently from their ownership.")


_ANY_BROKER: Final = "http://localhost:8080"


def rest_line(step: PulsarStep, web_url: str | None) -> str:
    """Return the ``curl`` line of a step.

    Redirects keep method and body; credentials are omitted on purpose.

    Args:
        web_url: Web address of its owner, or of any broker; ``None`` if the broker id is used.
    """
    unknown = _ANY_BROKER if step.owner is None else f"http://{step.owner}"
    base = (web_url or unknown).rstrip("/")
    request = step.request()
    words = ["curl", "-X", request.method, "-L"]
    if request.body is not None:
        words += ["-H", "Content-Type: application/json", "-d", request.body]
    return shlex.join([*words, f"{base}/admin/v2/{request.path}"])
