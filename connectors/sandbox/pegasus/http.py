"""HTTP on the same port: the JSON endpoints and ``/metrics``, numbers as texts like upstream."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from time import time
from typing import Any, Final

import numpy as np

from connectors.sandbox.pegasus.cluster import Cluster
from connectors.sandbox.pegasus.commands import COMMIT, VERSION
from connectors.sandbox.pegasus.control import Control
from connectors.sandbox.pegasus.metrics import metrics_of
from connectors.sandbox.pegasus.server import HttpAnswer, split_target
from connectors.sandbox.pegasus.state import MIN_2PC
from core.pegasus.health import ListedHealth, Membership

Query = Mapping[str, str]
_FLAGS: Final = (
    "balance_cluster",
    "balance_op_count_per_round",
    "min_live_node_count_for_unfreeze",
)
_TRUTH: Final = {"true": True, "false": False}


class HttpCalls:
    """Handlers of one server.

    Args:
        cluster: The whole sandbox.
        name: Of this server.
        is_meta: A meta server, else a replica server.
        control: Reports what runs; only meta servers have it.
    """

    def __init__(
        self, cluster: Cluster, name: str, *, is_meta: bool, control: Control | None = None
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._is_meta = is_meta
        self._calls: dict[str, Callable[[Query], HttpAnswer]] = {
            "version": lambda _: _json({"Version": VERSION, "GitCommit": COMMIT}),
            "configs": lambda _: _json(self._flags()),
            "config": self._flag,
            "updateConfig": self._update_flag,
            "metrics": self._metrics,
        }
        if control is not None:
            self._calls["sandbox"] = lambda _: control.state()
        if is_meta:
            self._calls |= {
                "meta/cluster": lambda _: _json(cluster.info(with_name=False)),
                "meta/nodes": self._nodes,
                "meta/apps": self._apps,
                "meta/app": self._app,
                "meta/app_envs": self._envs,
            }

    def answer(self, target: str) -> HttpAnswer:
        """Answer a GET of ``/path?query``."""
        path, query = split_target(target)
        call = self._calls.get(path)
        if call is None:
            return HttpAnswer(404, f'service not found for "{path}"')
        if path.startswith("meta/") and self._cluster.leader != self._name:
            return HttpAnswer(307, location=f"http://{self._cluster.leader}{target}")
        return call(query)

    # -- every server ---------------------------------------------------------------------------

    def _flags(self) -> dict[str, dict[str, str]]:
        settings = asdict(self._cluster.state.settings)
        flags = {
            "lb_interval_ms": ("replication", "FV_INT32", "", self._cluster.options.tick_s * 1000),
            "mutation_2pc_min_replica_count": ("replication", "FV_INT32", "", MIN_2PC),
        }
        if not self._is_meta:
            closing_ms = self._cluster.options.close_after_s * 1000
            flags["gc_memory_replica_interval_ms"] = ("replication", "FV_INT32", "", closing_ms)
            own = self._cluster.state.nodes[self._name].flags
            flags |= {name: ("replication", "FV_INT32", "", value) for name, value in own.items()}
        for name in _FLAGS if self._is_meta else ():
            kind = "FV_BOOL" if name == "balance_cluster" else "FV_UINT32"
            flags[name] = ("meta_server", kind, "flag_tag::FT_MUTABLE", settings[name])
        return {
            name: {
                "name": name,
                "section": section,
                "type": kind,
                "tags": tags,
                "description": "",
                "value": str(value).lower() if isinstance(value, bool) else f"{value:.0f}",
            }
            for name, (section, kind, tags, value) in flags.items()
        }

    def _flag(self, query: Query) -> HttpAnswer:
        name = query.get("name", "")
        flag = self._flags().get(name)
        return HttpAnswer(200, f"{name} is not found\n") if flag is None else _json(flag)

    def _update_flag(self, query: Query) -> HttpAnswer:
        """Change a flag of the leading meta server; elsewhere it is taken and means nothing."""
        ((name, text),) = list(query.items()) if len(query) == 1 else [("", "")]
        flag = self._flags().get(name)
        if flag is None:
            return _status(f"ERR_OBJECT_NOT_FOUND: {name} is not found")
        if not flag["tags"]:
            return _status(f"ERR_INVALID_PARAMETERS: {name} is not mutable")
        value = _TRUTH.get(text) if flag["type"] == "FV_BOOL" else _number(text)
        if value is None:
            return _status(f"ERR_INVALID_PARAMETERS: {text} is invalid")
        if self._cluster.leader == self._name:
            setattr(self._cluster.state.settings, name, value)
        return _status("ERR_OK")

    def _metrics(self, query: Query) -> HttpAnswer:
        known = {"types", "ids", "attributes", "metrics", "with_metric_fields", "detail"}
        if strange := set(query) - known:
            name = min(strange)
            return HttpAnswer(400, json.dumps({"error_message": f"unknown field {name}"}))
        entities = metrics_of(self._cluster, self._name, is_meta=self._is_meta)
        body = {
            "cluster": self._cluster.options.cluster,
            "role": "meta" if self._is_meta else "replica",
            "host": "localhost",
            "port": int(self._name.rpartition(":")[2]),
            "timestamp_ns": round(time() * 1e9),
            "entities": [part for one in entities if (part := _filtered(one, query)) is not None],
        }
        return _json(body)

    # -- meta servers ---------------------------------------------------------------------------

    def _nodes(self, query: Query) -> HttpAnswer:
        state = self._cluster.state
        primaries, replicas = self._cluster.replica_counts()
        details = {}
        for node in state.nodes.values():
            row = {"address": node.name, "status": "ALIVE" if node.is_alive else "UNALIVE"}
            if "detail" in query:
                held, led = replicas[node.name], primaries[node.name]
                row |= _counted(replica_count=held, primary_count=led, secondary_count=held - led)
            details[node.name] = row
        alive = sum(node.is_alive for node in state.nodes.values())
        summary = _counted(
            total_node_count=len(details),
            alive_node_count=alive,
            unalive_node_count=len(details) - alive,
        )
        return _json({"details": details, "summary": summary})

    def _apps(self, query: Query) -> HttpAnswer:
        tables = self._cluster.state.tables
        body: dict[str, Any] = {
            "general_info": {
                str(table.app_id): {
                    "app_id": str(table.app_id),
                    "status": "AVAILABLE",
                    "app_name": table.name,
                    "app_type": "pegasus",
                    "partition_count": str(table.partition_count),
                    "replica_count": str(table.max_replica_count),
                    "is_stateful": "true",
                    "create_time": f"{datetime.fromtimestamp(table.create_s, UTC):%F %T}.000",
                    "drop_time": "-",
                    "drop_expire": "-",
                    "envs_count": str(len(table.envs)),
                }
                for table in tables.values()
            }
        }
        summary = {"total_app_count": len(tables)}
        if "detail" in query:
            listed = {app_id: self._listed(app_id) for app_id in tables}
            body["healthy_info"] = {
                str(app_id): {
                    "app_id": str(app_id),
                    "app_name": tables[app_id].name,
                    "partition_count": str(tables[app_id].partition_count),
                    **_counted(**counts),
                }
                for app_id, counts in listed.items()
            }
            whole = sum(not one["unhealthy"] for one in listed.values())
            summary |= {
                "fully_healthy_app_count": whole,
                "unhealthy_app_count": len(tables) - whole,
                "write_unhealthy_app_count": sum(
                    one["write_unhealthy"] > 0 for one in listed.values()
                ),
                "read_unhealthy_app_count": sum(
                    one["read_unhealthy"] > 0 for one in listed.values()
                ),
            }
        return _json({**body, "summary": _counted(**summary)})

    def _app(self, query: Query) -> HttpAnswer:
        if set(query) - {"name", "detail"} or not query.get("name"):
            return HttpAnswer(400, "app name shouldn't be empty")
        table = self._cluster.state.table_named(query["name"])
        if table is None:
            return HttpAnswer(404, f'table not found: "{query["name"]}"')
        body: dict[str, Any] = {
            "general": {
                "app_name": table.name,
                "app_id": str(table.app_id),
                "partition_count": str(table.partition_count),
                "max_replica_count": str(table.max_replica_count),
            }
        }
        if "detail" in query:
            body |= self._app_detail(table.app_id)
        return _json(body)

    def _app_detail(self, app_id: int) -> dict[str, Any]:
        configs = [partition.config for partition in self._cluster.state.of_table(app_id)]
        primary = Counter(config.primary for config in configs if config.primary)
        secondary = Counter(name for config in configs for name in config.secondaries)
        nodes = {
            name: {
                "node": name,
                **_counted(
                    primary=primary[name],
                    secondary=secondary[name],
                    total=primary[name] + secondary[name],
                ),
            }
            for name in sorted({*primary, *secondary})
        }
        led, helped = primary.total(), secondary.total()
        total = _counted(primary=led, secondary=helped, total=led + helped)
        health = {f"{name}_partition_count": n for name, n in self._listed(app_id).items()}
        return {
            "replicas": {
                str(config.index): {
                    "pidx": str(config.index),
                    "ballot": str(config.ballot),
                    "replica_count": f"{config.replica_count}/{config.max_replica_count}",
                    "primary": config.primary or "-",
                    "secondaries": f"[{','.join(config.secondaries)}]",
                }
                for config in configs
            },
            "nodes": {**nodes, "total": {"node": "total", **total}},
            "healthy": _counted(**health),
        }

    def _envs(self, query: Query) -> HttpAnswer:
        table = self._cluster.state.table_named(query.get("name", ""))
        return _json({} if table is None else dict(table.envs))

    def _listed(self, app_id: int) -> dict[str, int]:
        configs = [partition.config for partition in self._cluster.state.of_table(app_id)]
        membership = Membership(
            has_primary=np.array([config.primary is not None for config in configs]),
            secondary_counts=np.array([len(config.secondaries) for config in configs], np.int32),
            max_replica_counts=np.array([one.max_replica_count for one in configs], np.int32),
            tables=np.zeros(len(configs), np.int32),
        )
        listed = ListedHealth.of(membership, 1)
        names = ("fully_healthy", "unhealthy", "write_unhealthy", "read_unhealthy")
        return {name: int(getattr(listed, name)[0]) for name in names}


def _json(body: Mapping[str, Any]) -> HttpAnswer:
    return HttpAnswer(200, json.dumps(body, separators=(",", ":")) + "\n")


def _status(text: str) -> HttpAnswer:
    return HttpAnswer(200, json.dumps({"update_status": text}, separators=(",", ":")) + "\n")


def _counted(**counts: int) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _filtered(entity: dict[str, Any], query: Query) -> dict[str, Any] | None:
    """Return an entity with the requested metrics, ``None`` when it was not requested."""
    types, names = _listed_words(query, "types"), _listed_words(query, "metrics")
    attributes = _listed_words(query, "attributes")
    pairs = list(zip(attributes[::2], attributes[1::2], strict=False))
    if types and entity["type"] not in types:
        return None
    if pairs and not any(entity["attributes"].get(key) == value for key, value in pairs):
        return None
    metrics = [one for one in entity["metrics"] if not names or one["name"] in names]
    return {**entity, "metrics": metrics} if metrics else None


def _listed_words(query: Query, name: str) -> list[str]:
    return [word for word in query.get(name, "").split(",") if word]
