"""The load cannot be divided: one bundle, or one topic, carries more than a broker's share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values, row_of
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext
from core.diagnosis.pulsar.trials import Change
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.units import format_bytes_per_s, format_msgs_per_s, pluralize

_HALVED: Final = (
    *RATES,
    *(f"short_{rate}" for rate in RATES),
    *(f"long_{rate}" for rate in RATES),
)
_COUNTED: Final = ("topic_count", "producer_count", "consumer_count", "cache_size_bytes")
_MAX_SHOWN: Final = 2
_SPLIT: Final = "loadBalancerAutoBundleSplitEnabled"
_MAX_PARTS: Final = 16


def heavy_bundles(context: DiagnosisContext) -> Iterator[Candidate]:
    """A bundle with more traffic than a broker should carry: moving it moves the hot spot."""
    bundles = context.snapshot.bundles
    spread = context.load
    name = "msg_rate" if spread.name == "msg_rate" else "msg_throughput"
    traffic = np.nan_to_num(
        column_values(bundles, f"{name}_in") + column_values(bundles, f"{name}_out")
    )
    if not spread.mean or not bundles.num_rows:
        return
    movable = ~np.asarray(bundles["is_broker_bound"].to_numpy(zero_copy_only=False), bool)
    ceiling = spread.mean * (1 + context.target_ratio)
    heavy = np.flatnonzero((traffic > ceiling) & movable)
    is_off = () if context.settings.flag(_SPLIT) else (_SPLIT,)
    for row in heavy[np.argsort(-traffic[heavy])][:_MAX_SHOWN].tolist():
        bundle = bundles["bundle"][row].as_py()
        topics = bundles["topic_count"][row].as_py()
        is_single = topics == 1
        form = format_bytes_per_s if spread.name == "throughput" else format_msgs_per_s
        parts = int(min(max(np.ceil(traffic[row] / (spread.mean / 2)), 2), _MAX_PARTS))
        yield Candidate(
            code="topic_too_heavy" if is_single else "bundle_too_heavy",
            keys=() if is_single else ("loadBalancerNamespaceBundleMaxMsgRate", *is_off),
            objects=(bundle,),
            summary=f"{bundle} carries "
            f"{form(float(traffic[row]))}{' in one topic' if is_single else ''}, more "
            f"than a broker's share of {form(ceiling)}: every owner becomes hot.",
            changes=tuple(
                context.base.also(
                    Change(data=f"{bundle} in {count} parts", edit=_divided(row, count))
                )
                for count in dict.fromkeys((2, 4, parts))
            ),
            hint=f"Use at least {parts} partitions for the topic: a split cannot divide one topic."
            if is_single
            else f"Split it (trimtab split {context.snapshot.manifest.cluster} --bundle "
            f"{bundle}). If one topic carries the load, add partitions to that topic."
            + (f" Automatic splits are off: {_SPLIT}=false." if is_off else ""),
            measured=float(traffic[row]),
            threshold=float(ceiling),
            unit="bytes/s" if spread.name == "throughput" else "msg/s",
        )


def _divided(row: int, parts: int) -> Callable[[PulsarSnapshot], PulsarSnapshot]:
    """Return the edit that divides a bundle evenly; its parts go to the idlest brokers."""

    def edit(snapshot: PulsarSnapshot) -> PulsarSnapshot:
        bundles = snapshot.bundles
        divided = pa.Table.from_pylist(
            _parts(bundles.slice(row, 1).to_pylist()[0], parts), schema=bundles.schema
        )
        table = pa.concat_tables([bundles.slice(0, row), divided, bundles.slice(row + 1)])
        cut = PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "bundles": table})
        return _spread_out(cut, np.arange(row + 1, row + parts))

    return edit


def _parts(whole: dict[str, Any], parts: int) -> list[dict[str, Any]]:
    bounds = np.linspace(whole["lower"], whole["upper"], parts + 1).astype(np.int64).tolist()
    space = whole["namespace"]
    found = []
    for lower, upper in itertools.pairwise(bounds):
        part = dict(whole)
        part |= {"bundle": f"{space}/0x{lower:08x}_0x{upper:08x}", "lower": lower, "upper": upper}
        part |= {name: whole[name] / parts for name in _HALVED if whole[name] is not None}
        part |= {name: whole[name] // parts for name in _COUNTED if whole[name] is not None}
        found.append(part)
    return found


def _spread_out(snapshot: PulsarSnapshot, rows: np.ndarray) -> PulsarSnapshot:
    brokers = snapshot.brokers
    load = np.nan_to_num(
        column_values(brokers, "msg_throughput_in") + column_values(brokers, "msg_throughput_out")
    )
    owner = row_of(brokers["broker"], snapshot.bundles["owner"])[rows]
    order = [at for at in np.argsort(load, kind="stable").tolist() if at not in set(owner.tolist())]
    if not order:
        return snapshot
    names = brokers["broker"].to_pylist()
    ends = tuple(names[order[index % len(order)]] for index in range(rows.size))
    return project_scenario(snapshot, rows, Scenario(1.0, ends))


def few_bundles(context: DiagnosisContext) -> Iterator[Candidate]:
    """A namespace has fewer bundles than there are brokers: some can carry nothing of it."""
    bundles = context.snapshot.bundles.filter(
        pc.invert(context.snapshot.bundles["is_broker_bound"])
    )
    count = context.snapshot.brokers.num_rows
    if not bundles.num_rows or bundles.num_rows >= count or not context.idle_brokers:
        return
    spaces, idle = pc.unique(bundles["namespace"]).to_pylist(), len(context.idle_brokers)
    yield Candidate(
        code="too_few_bundles",
        keys=("defaultNumberOfNamespaceBundles",),
        objects=tuple(spaces[:3]),
        summary=f"{pluralize(bundles.num_rows, 'bundle')} for {count} brokers: "
        f"{pluralize(idle, 'broker')} without load.",
        changes=(context.base.also(Change(data="each bundle in 2 parts", edit=_all_divided)),),
        hint="Split the bundles so that every broker has several.",
        measured=float(bundles.num_rows),
        threshold=float(count),
        unit="bundles",
    )


def _all_divided(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    edited = snapshot
    bound = edited.bundles["is_broker_bound"].to_pylist()
    for row in reversed([at for at, is_bound in enumerate(bound) if not is_bound]):
        edited = _divided(row, 4)(edited)
    return edited
