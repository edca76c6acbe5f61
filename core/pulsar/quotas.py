"""Resource quotas of bundles: what a leader assumes for a bundle without stored averages."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES
from core.snapshot import PulsarSnapshot
from core.units import pluralize

Floats = NDArray[np.float64]

_FIELDS: Final = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "bandwidthIn",
    "msg_throughput_out": "bandwidthOut",
}
_DEFAULT: Final = "default"


def quota_seeds(snapshot: PulsarSnapshot) -> Mapping[str, Floats]:
    """Return the assumed load of bundles from their own quota, per rate column.

    The quota named ``default`` seeds nothing: the modular manager reads a bundle's own only.

    Returns:
        ``{column: shape (n_bundles,), msg/s or bytes/s, NaN where there is no quota}``; empty where
        no bundle has one.
    Source:
        Pulsar ``ModularLoadManagerImpl#getBundleDataOrDefaultAsync``.
    """
    names = snapshot.bundles.column("bundle")
    found: dict[str, Floats] = {}
    for name, quota in _own_quotas(snapshot):
        row = pc.index(names, name).as_py()
        if row < 0:
            continue
        for column, key in _FIELDS.items():
            values = found.setdefault(column, np.full(len(names), np.nan))
            values[row] = _number(quota.get(key))
    return found


def _own_quotas(snapshot: PulsarSnapshot) -> Iterator[tuple[str, Mapping[str, Any]]]:
    policies = snapshot.policies
    if not policies.num_rows:
        return
    for row in policies.filter(pc.equal(policies.column("kind"), "resource_quota")).to_pylist():
        body = _object(row["body"])
        if row["name"] != _DEFAULT and body is not None:
            yield row["name"], body


def _object(text: str) -> Mapping[str, Any] | None:
    """Return {} for a non-object: brokers use the defaults when they cannot read it."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _number(value: object) -> float:
    """A field that is not there is 0, as in an object of the real class."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) else 0.0


def seeded_averages(
    snapshot: PulsarSnapshot,
    held: tuple[Floats, Floats, Floats],
    is_sampled: NDArray[np.bool_],
) -> tuple[Floats, Floats, Floats]:
    """Fill unknown averages of bundles with a quota, as a leader that starts now does.

    A quota counts for as many samples as an average holds; a report adds one to it. A leader that
    leads for longer has added more (deviation QUOTA-1).

    Args:
        snapshot: The cluster; the extensible manager keeps no averages and takes no quota.
        held: Short-term rate (msg/s) and throughput (bytes/s), long-term rate; NaN: not stored.
        is_sampled: Whether a report gives a sample of the bundle.
    Returns:
        The same, filled.
    Source:
        Pulsar ``ModularLoadManagerImpl#updateBundleData``.
    """
    seeds = {} if snapshot.manifest.load_manager == "extensible" else quota_seeds(snapshot)
    measured = {name: _last(snapshot, name) for name in _FIELDS} if seeds else {}
    return seeded(seeds, measured, held, is_sampled)


def seeded(
    seeds: Mapping[str, Floats],
    measured: Mapping[str, Floats],
    held: tuple[Floats, Floats, Floats],
    is_sampled: NDArray[np.bool_],
) -> tuple[Floats, Floats, Floats]:
    """Fill unknown averages; see :func:`seeded_averages`.

    Args:
        seeds: Of :func:`quota_seeds`.
        measured: Last statistics by the same columns; unknown ones are 0.
        held: Averages.
        is_sampled: Whether a report gives a sample of the bundle.
    """
    if not seeds:
        return held
    rate, flow = (_both(seeds, kind) for kind in ("msg_rate", "msg_throughput"))
    last_rate, last_flow = (_both(measured, kind) for kind in ("msg_rate", "msg_throughput"))

    return (
        _filled(held[0], (rate, last_rate), is_sampled, SHORT_SAMPLES),
        _filled(held[1], (flow, last_flow), is_sampled, SHORT_SAMPLES),
        _filled(held[2], (rate, last_rate), is_sampled, LONG_SAMPLES),
    )


def _filled(
    own: Floats, begun: tuple[Floats, Floats], is_sampled: NDArray[np.bool_], samples: int
) -> Floats:
    """Fill unknown averages; ``begun``: the quota, and what was measured last."""
    seed, last = begun
    average = np.where(is_sampled, ((samples - 1) * seed + last) / samples, seed)
    return np.where(np.isnan(own), average, own)


def long_averages(snapshot: PulsarSnapshot) -> tuple[Floats, Floats]:
    """Return the long-term rate (msg/s) and throughput (bytes/s) of each bundle, in + out.

    Where none is stored, that of a leader that starts now and has read one report: its own quota
    with one sample.

    Returns:
        Both ``(n_bundles,)``; NaN where nothing is stored and the bundle has no quota.
    """
    bundles = snapshot.bundles
    kinds = ("msg_rate", "msg_throughput")
    stored = [known_sum(bundles, f"long_{kind}_in", f"long_{kind}_out") for kind in kinds]
    seeds = {} if snapshot.manifest.load_manager == "extensible" else quota_seeds(snapshot)
    if not seeds:
        return stored[0], stored[1]
    measured = {name: _last(snapshot, name) for name in _FIELDS}
    has_stats = ~np.isnan(known_sum(bundles, "msg_rate_in", "msg_rate_out"))
    is_sampled = has_stats & np.asarray(pc.is_valid(bundles.column("reported_by")), np.bool_)
    filled = [
        _filled(own, (_both(seeds, kind), _both(measured, kind)), is_sampled, LONG_SAMPLES)
        for own, kind in zip(stored, kinds, strict=True)
    ]
    return filled[0], filled[1]


def known_sum(table: pa.Table, *names: str) -> Floats:
    """Return the sum of what is known of some columns, row by row; NaN where nothing is."""
    columns = [table.column(name).to_numpy(zero_copy_only=False) for name in names]
    parts = np.asarray(np.stack(columns), np.float64)
    return np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))


def quota_note(snapshot: PulsarSnapshot) -> str:
    """Return a sentence on the bundles that begin with their quota; blank: there is none."""
    if snapshot.manifest.load_manager == "extensible":
        return ""
    seeds = quota_seeds(snapshot)
    if not seeds:
        return ""
    unknown = np.asarray(pc.is_null(snapshot.bundles.column("long_msg_rate_in")))
    count = int(np.count_nonzero(unknown & ~np.isnan(seeds["msg_rate_in"])))
    if not count:
        return ""
    return (
        f"{pluralize(count, 'bundle')} without a stored average: the initial value is the resource "
        "quota of the bundle, as for a new leader."
    )


def _both(columns: Mapping[str, Floats], kind: str) -> Floats:
    return columns[f"{kind}_in"] + columns[f"{kind}_out"]


def _last(snapshot: PulsarSnapshot, name: str) -> Floats:
    column = snapshot.bundles.column(name).to_numpy(zero_copy_only=False)
    return np.nan_to_num(np.asarray(column, np.float64))
