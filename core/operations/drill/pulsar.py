"""The failure drill: every broker and every failure domain lost in turn, and what comes of it.

For each loss: where the bundles go, by what the leader would do; who gets hot; which isolation
group has no broker, or no room, left. Nothing is assumed about the workload but that it follows its
bundles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError, OpsError, UnknownNameError
from core.operations.drill.placing import FailoverPlacement, Loss, place_losses
from core.operations.drill.request import DrillRequest
from core.operations.drill.tables import FAILURES, SCHEMAS
from core.operations.operation import MAX_ROWS, Answer, Line, Listing
from core.progress import Progress
from core.pulsar.bundle_counts import Ints
from core.pulsar.cluster import BrokerLoads
from core.pulsar.facts import PulsarFacts
from core.pulsar.liveness import loads_of
from core.pulsar.load_transfer import CARRIED, RESOURCES, TransferredLoad, carried_by
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats, LoadView
from core.snapshot import PulsarSnapshot
from core.units import format_ratio, pluralize

_MAX_CELLS: Final = 4_000_000
"""Losses times brokers times rows of a broker that are worked on at once."""

SHARED: Final = "(no isolation policy)"

_WORST_FIRST: Final = [
    ("unassigned", "descending"),
    ("groups_without_broker", "descending"),
    ("newly_hot", "descending"),
    ("hot_brokers", "descending"),
    ("hottest_usage", "descending"),
    ("moved_bytes_per_s", "descending"),
    ("failure", "ascending"),
]


class DrillJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        answer: In words.
        hot_threshold: Usage above which a broker is hot, as requested.
        seed: Seed of all random draws, as requested.
        failures: The failures, worst first.
        hot: Brokers above the hot threshold after a failure.
        groups: Remaining brokers of isolation groups after a failure.
        skipped: Failures that were not simulated, with the reason.
    """

    answer: str
    hot_threshold: float
    seed: int
    failures: list[dict[str, Any]]
    hot: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    skipped: list[str]


@dataclass(frozen=True, eq=False)
class Drill(Answer):
    """The answer.

    Attributes:
        answer: In words.
        hot_threshold: Usage above which a broker is hot, as requested.
        seed: Seed of all random draws, as requested.
        failures: Table of :data:`FAILURES`.
        hot: Table of :data:`HOT`.
        groups: Table of :data:`GROUPS`.
        skipped: Failures that were not simulated, with the reason.
    """

    answer: str
    hot_threshold: float
    seed: int
    failures: pa.Table
    hot: pa.Table
    groups: pa.Table
    skipped: tuple[InputError, ...] = ()

    def body(self) -> DrillJson:
        """Return the JSON object."""
        return {
            "answer": self.answer,
            "hot_threshold": self.hot_threshold,
            "seed": self.seed,
            "failures": self.failures.to_pylist(),
            "hot": self.hot.to_pylist(),
            "groups": self.groups.to_pylist(),
            "skipped": [one.message for one in self.skipped],
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables by name."""
        return {"failures": self.failures, "hot": self.hot, "groups": self.groups}

    @property
    def problems(self) -> tuple[OpsError, ...]:
        """The failures that were not simulated."""
        return self.skipped

    def text(self, request: DrillRequest) -> Iterator[Line]:
        """Return the text for people."""
        yield self.answer
        yield ""
        columns = FAILURES.pick(
            *("failure", "bundles", "unassigned", "clients", "moved_bytes_per_s", "newly_hot"),
            *("pressed", "pressed_before", "pressed_after"),
        )
        spare = ("clients", "moved_bytes_per_s", "unassigned")
        yield Listing(self.failures, columns, spare, rest="--json or --out lists all.")
        for one in self.skipped[:MAX_ROWS]:
            yield f"Not simulated: {one.message} {one.hint}"
        tight = self.groups.filter(pc.invert(self.groups["has_room"])).slice(0, MAX_ROWS)
        for row in tight.to_pylist():
            yield (
                f"Insufficient capacity: without {row['failure']}, {row['group']} has "
                f"{row['brokers_left']} of {row['brokers_before']} brokers, "
                f"{row['unassigned']:,} of {row['bundles']:,} bundles cannot be placed; the least "
                f"loaded broker is at {format_ratio(row['coolest_usage'])}."
            )
        yield f"Hot threshold: usage of {format_ratio(request.hot_threshold)}."


def losses_of(view: LoadView, request: DrillRequest) -> list[Loss]:
    """Return the failures to simulate.

    Raises:
        UnknownNameError: A name that is no broker and no failure domain.
        InputError: Nothing is left to simulate.
    """
    found = []
    if request.brokers:
        found += [Loss(name, "broker", (row,)) for row, name in enumerate(view.brokers)]
    if request.domains:
        members: dict[str, list[int]] = {}
        for row, domain in enumerate(view.failure_domains):
            if domain:
                members.setdefault(domain, []).append(row)
        found += [Loss(name, "domain", tuple(rows)) for name, rows in sorted(members.items())]
    known = {loss.name for loss in found}
    for name in request.only:
        if name not in known:
            raise UnknownNameError.of("broker or failure domain", name, known)
    found = [loss for loss in found if not request.only or loss.name in request.only]
    if not found:
        raise InputError(
            f"{view.cluster} has nothing that could fail.",
            hint="Its snapshot has no brokers, or none of the requested failure domains.",
        )
    return found


def groups_of(view: LoadView, losses: Sequence[Loss]) -> list[list[Loss]]:
    """Return the losses in groups that fit into memory together."""
    width = max(len(view.brokers) * (len(view.policies) + 12), 1)
    size = max(_MAX_CELLS // width, 1)
    return [list(losses[at : at + size]) for at in range(0, len(losses), size)]


def drill(facts: PulsarFacts, request: DrillRequest, progress: Progress) -> Drill:
    """Simulate the failures in this process.

    Raises:
        IncompleteSnapshotError: The snapshot has no brokers or no bundles.
        UnknownNameError, InputError: See :func:`losses_of`, :func:`simulate_losses`.
        JobStoppedError: It was stopped.
    """
    facts.snapshot.require("brokers", "bundles")
    groups = groups_of(facts.view, losses_of(facts.view, request))
    tables = []
    for number, losses in enumerate(groups):
        progress.step(number, len(groups), "failure drill")
        tables.append(simulate_losses(facts.snapshot, facts.settings, losses, request))
    progress.step(len(groups), len(groups), "failure drill")
    return drill_of(tables, request)


def drill_of(parts: Iterable[dict[str, pa.Table]], request: DrillRequest) -> Drill:
    """Put the answers of :func:`simulate_losses` together, worst first, whatever their order is."""
    whole: dict[str, list[pa.Table]] = {
        name: [schema.empty_table()] for name, schema in SCHEMAS.items()
    }
    for part in parts:
        for name, tables in whole.items():
            tables.append(part[name])
    failures = pa.concat_tables(whole["failures"]).sort_by(_WORST_FIRST)
    hot = pa.concat_tables(whole["hot"]).sort_by(
        [("usage_after", "descending"), ("failure", "ascending"), ("broker", "ascending")]
    )
    groups = pa.concat_tables(whole["groups"]).sort_by(
        [
            ("has_room", "ascending"),
            ("unassigned", "descending"),
            ("brokers_left", "ascending"),
            ("failure", "ascending"),
            ("group", "ascending"),
        ]
    )
    return Drill(
        answer=_sentence(failures),
        hot_threshold=request.hot_threshold,
        seed=request.seed,
        failures=failures,
        hot=hot,
        groups=groups,
    )


def simulate_losses(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    losses: Sequence[Loss],
    request: DrillRequest,
    view: LoadView | None = None,
) -> dict[str, pa.Table]:
    """Return the rows of :data:`SCHEMAS` for some losses.

    Args:
        snapshot: Before; at least with the bundles that are lost.
        settings: What the leader goes by.
        losses: The failures.
        request: What is computed.
        view: Of the snapshot; ``None`` to lay it out here.
    Raises:
        InputError: The load manager is not one that can be simulated.
    """
    view = LoadView.of(snapshot, settings) if view is None else view
    landed = place_losses(view, settings, losses, request.seed)
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *(one.bundles for one in landed)]))
    loads = BrokerLoads.of(loads_of(snapshot))
    fleet = _Fleet(loads, settings, view, rows, carried_by(snapshot, rows))
    tables: dict[str, list[dict[str, object]]] = {name: [] for name in SCHEMAS}
    for loss, one in zip(losses, landed, strict=True):
        after = fleet.after(loss, one)
        groups = list(_groups(view, loss, one, after, request.hot_threshold))
        tables["groups"] += groups
        tables["hot"] += _hot(view, loss, after, request.hot_threshold)
        tables["failures"].append(_failure(view, loss, after, groups, request.hot_threshold))
    return {
        name: pa.Table.from_pylist(tables[name], schema=schema) for name, schema in SCHEMAS.items()
    }


@dataclass(frozen=True, eq=False)
class _FleetAfterLoss:
    """The fleet after one loss; a place a broker row, NaN where unknown or lost."""

    usage_before: Floats
    usage: Floats
    traffic: Floats
    gained: Ints
    gained_flow: Floats
    bundles: int
    unassigned: int
    clients: int
    flow: float
    is_left: Flags

    def is_hot(self, threshold: float) -> Flags:
        """Brokers at or above the threshold."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.usage >= threshold, np.bool_)


@dataclass(frozen=True, eq=False)
class _Fleet:
    """Shared input of all failures: reported loads, and the load of each bundle."""

    loads: BrokerLoads
    settings: EffectiveSettings
    view: LoadView
    rows: Ints
    carried: TransferredLoad

    @cached_property
    def usage_before(self) -> Floats:
        """Weighted usage of the brokers."""
        return self.loads.shares.weighted(self.settings)

    def after(self, loss: Loss, landed: FailoverPlacement) -> _FleetAfterLoss:
        """Return loads after one loss."""
        size = len(self.view.brokers)
        amounts = self.carried.amounts[np.searchsorted(self.rows, landed.bundles)]
        here = landed.ends >= 0
        ends = landed.ends[here]

        def arriving(name: str) -> Floats:
            weights = amounts[here, CARRIED.index(name)]
            return np.asarray(np.bincount(ends, weights=weights, minlength=size), np.float64)

        def whole(name: str) -> float:
            return float(amounts[:, CARRIED.index(name)].sum())

        directions = ("msg_throughput_in", "msg_throughput_out")
        gained = arriving(directions[0]) + arriving(directions[1])
        reported = sum(self.loads.column(name) for name in directions)
        is_left = np.ones(size, np.bool_)
        is_left[list(loss.rows)] = False
        more = np.stack([arriving(name) for name in RESOURCES], axis=1)
        usage = self.loads.usage_with(more, self.settings)
        return _FleetAfterLoss(
            usage_before=self.usage_before,
            usage=np.where(is_left, usage, np.nan),
            traffic=np.where(is_left, reported + gained, np.nan),
            gained=np.bincount(ends, minlength=size),
            gained_flow=gained,
            bundles=landed.bundles.size,
            unassigned=int((~here).sum()),
            clients=round(whole("producer_count") + whole("consumer_count")),
            flow=whole(directions[0]) + whole(directions[1]),
            is_left=is_left,
        )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _failure(
    view: LoadView,
    loss: Loss,
    after: _FleetAfterLoss,
    groups: Sequence[dict[str, object]],
    threshold: float,
) -> dict[str, object]:
    hot = after.is_hot(threshold)
    with np.errstate(invalid="ignore"):
        was_hot = after.usage_before >= threshold
    usage = np.nan_to_num(after.usage, nan=-1.0)
    hottest = int(usage.argmax())
    rise = np.nan_to_num(after.usage - after.usage_before, nan=-np.inf)
    pressed = int(rise.argmax())
    traffic = after.traffic[np.isfinite(after.traffic)]
    mean = float(traffic.mean()) if traffic.size else 0.0
    return {
        "failure": loss.name,
        "kind": loss.kind,
        "brokers": len(loss.rows),
        "bundles": after.bundles,
        "unassigned": after.unassigned,
        "clients": after.clients,
        "moved_bytes_per_s": after.flow,
        "hot_brokers": int(hot.sum()),
        "newly_hot": int((hot & ~was_hot).sum()),
        "hottest": view.brokers[hottest] if usage[hottest] >= 0 else None,
        "hottest_usage": _known(after.usage[hottest]),
        "pressed": view.brokers[pressed] if rise[pressed] > 0 else None,
        "pressed_before": _known(after.usage_before[pressed]) if rise[pressed] > 0 else None,
        "pressed_after": _known(after.usage[pressed]) if rise[pressed] > 0 else None,
        "deviation": float(np.abs(traffic / mean - 1.0).max()) if mean > 0 else None,
        "groups_without_broker": sum(not row["brokers_left"] for row in groups),
        "groups_without_room": sum(not row["has_room"] for row in groups),
    }


def _hot(
    view: LoadView, loss: Loss, after: _FleetAfterLoss, threshold: float
) -> list[dict[str, object]]:
    return [
        {
            "failure": loss.name,
            "broker": view.brokers[row],
            "usage_before": _known(after.usage_before[row]),
            "usage_after": _known(after.usage[row]),
            "bundles_gained": int(after.gained[row]),
            "gained_bytes_per_s": float(after.gained_flow[row]),
        }
        for row in np.flatnonzero(after.is_hot(threshold)).tolist()
    ]


def _groups(
    view: LoadView, loss: Loss, landed: FailoverPlacement, after: _FleetAfterLoss, threshold: float
) -> Iterator[dict[str, object]]:
    """Yield the effect on each affected isolation group."""
    count = len(view.policies)
    policy = view.namespace_policy[view.bundle_namespace[landed.bundles]]
    place = np.where(policy < 0, count, policy)
    bundles = np.bincount(place, minlength=count + 1)
    unassigned = np.bincount(place[landed.ends < 0], minlength=count + 1)
    shared = ~view.is_primary.any(axis=0) & view.serves_persistent
    members = np.vstack([view.is_primary | view.is_secondary, shared[None, :]])
    touched = members[:, list(loss.rows)].any(axis=1) | (bundles > 0)
    for group in np.flatnonzero(touched).tolist():
        left = landed.allowed[group if group < count else -1]
        usage = after.usage[left & np.isfinite(after.usage)]
        coolest = float(usage.min()) if usage.size else None
        is_cool = bool(left.any()) and (coolest is None or coolest < threshold)
        yield {
            "failure": loss.name,
            "group": view.policies[group].name if group < count else SHARED,
            "brokers_before": int(members[group].sum()),
            "brokers_left": int(left.sum()),
            "bundles": int(bundles[group]),
            "unassigned": int(unassigned[group]),
            "coolest_usage": coolest,
            "has_room": is_cool and not unassigned[group],
        }


def _sentence(failures: pa.Table) -> str:
    """Describe the worst case, and how many are survived."""
    count = failures.num_rows
    if not count:
        return "Nothing was simulated."
    bad = pc.or_(
        pc.greater(failures["newly_hot"], 0),
        pc.or_(
            pc.greater(failures["unassigned"], 0), pc.greater(failures["groups_without_room"], 0)
        ),
    )
    hurt = pc.sum(pc.cast(bad, pa.int64())).as_py()
    worst = failures.slice(0, 1).to_pylist()[0]
    if not hurt:
        which = "The one failure" if count == 1 else f"Each of {pluralize(count, 'failure')}"
        hottest = format_ratio(pc.max(failures["hottest_usage"]).as_py())
        return (
            f"{which} leaves every bundle assigned and no broker hot; the max usage is {hottest}."
        )
    words = [f"{pluralize(worst['bundles'], 'move')}"]
    if worst["unassigned"]:
        words.append(f"{worst['unassigned']:,} stay unassigned")
    if worst["newly_hot"]:
        words.append(f"{pluralize(worst['newly_hot'], 'more hot broker')}")
    if worst["pressed"]:
        before, after = (format_ratio(worst[f"pressed_{side}"]) for side in ("before", "after"))
        words.append(f"{worst['pressed']} rises most, from {before} to {after}")
    kind = "failure domain " if worst["kind"] == "domain" else ""
    return (
        f"{hurt:,} of {pluralize(count, 'failure')} with an impact. Worst: "
        f"{kind}{worst['failure']}, {', '.join(words)}."
    )
