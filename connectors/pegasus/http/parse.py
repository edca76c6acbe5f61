"""Bodies of the endpoints to values; numbers arrive as texts, and texts may hold JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from core.pegasus.metrics import Entity, MetricsSample

ALIVE: Final = "ALIVE"
PERCENTILES: Final = ("p50", "p90", "p95", "p99", "p999")


class Version(msgspec.Struct, rename={"version": "Version", "git_commit": "GitCommit"}):
    """``/version``."""

    version: str
    git_commit: str


class Flag(msgspec.Struct):
    """One flag of ``/configs``; the value is a text whatever the type."""

    name: str
    section: str
    type: str
    tags: str
    description: str
    value: str

    @property
    def is_mutable(self) -> bool:
        """Whether ``/updateConfig`` may change it."""
        return "FT_MUTABLE" in self.tags


class HttpNode(msgspec.Struct):
    """A row of ``/meta/nodes``; counts only when requested."""

    address: str
    status: str
    replica_count: int | None = None
    primary_count: int | None = None
    secondary_count: int | None = None


class _Nodes(msgspec.Struct):
    details: dict[str, HttpNode] = {}


class HttpTable(msgspec.Struct):
    """A row of ``/meta/apps``."""

    app_id: int
    status: str
    app_name: str
    app_type: str
    partition_count: int
    replica_count: int
    create_time: str
    envs_count: int


class TableHealth(msgspec.Struct):
    """A row of ``/meta/apps?detail``: the counting ``listed``."""

    app_id: int
    app_name: str
    partition_count: int
    fully_healthy: int
    unhealthy: int
    write_unhealthy: int
    read_unhealthy: int


class HttpTables(msgspec.Struct):
    """``/meta/apps``: both parts by table id."""

    general_info: dict[str, HttpTable] = {}
    healthy_info: dict[str, TableHealth] = {}


class _TableInfo(msgspec.Struct):
    app_name: str
    app_id: int
    partition_count: int
    max_replica_count: int


class HttpPartition(msgspec.Struct):
    """A row of ``/meta/app?detail``."""

    pidx: int
    ballot: int
    replica_count: str
    primary: str
    secondaries: str

    @property
    def primary_node(self) -> str | None:
        """The node, ``None`` without a primary."""
        return None if self.primary in ("", "-") else self.primary

    @property
    def secondary_nodes(self) -> tuple[str, ...]:
        """The nodes in their order."""
        return tuple(filter(None, self.secondaries.strip("[]").split(",")))


class HttpTableDetail(msgspec.Struct):
    """``/meta/app?name=T&detail``."""

    general: _TableInfo
    replicas: dict[str, HttpPartition] = {}


class DataVersion(msgspec.Struct):
    """Version of the data of one partition."""

    data_version: str


class _Metric(msgspec.Struct, gc=False):  # a capture has ten thousand
    name: str
    value: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None


class _Entity(msgspec.Struct, gc=False):
    type: str
    id: str
    attributes: dict[str, str] = {}
    metrics: list[_Metric] = []


class _Metrics(msgspec.Struct):
    cluster: str
    role: str
    timestamp_ns: int
    entities: list[_Entity] = []


def decode(body: bytes, kind: Any) -> Any:
    """Return a body as a type; texts become numbers where numbers are wanted.

    Raises:
        msgspec.MsgspecError: It is no JSON, or of another form.
    """
    return msgspec.json.decode(body, type=kind, strict=False)


def parse_nodes(body: bytes) -> list[HttpNode]:
    """Read ``/meta/nodes``."""
    listed: _Nodes = decode(body, _Nodes)
    return list(listed.details.values())


def parse_metrics(body: bytes) -> MetricsSample:
    """Read ``/metrics``."""
    decoded: _Metrics = decode(body, _Metrics)
    values: dict[Entity, dict[str, float]] = {}
    attributes: dict[Entity, dict[str, str]] = {}
    for entity in decoded.entities:
        key = (entity.type, entity.id)
        values[key] = _flat(entity.metrics)
        attributes[key] = entity.attributes
    return MetricsSample(decoded.role, decoded.cluster, decoded.timestamp_ns, values, attributes)


def _flat(metrics: list[_Metric]) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in metrics:
        if metric.value is not None:
            found[metric.name] = metric.value
            continue  # nearly all of them: what has percentiles has no value
        for percentile in PERCENTILES:
            value: float | None = getattr(metric, percentile)
            if value is not None:
                found[f"{metric.name}.{percentile}"] = value
    return found
