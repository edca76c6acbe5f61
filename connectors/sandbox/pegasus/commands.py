"""Remote commands: texts in, texts out, in the form that was recorded from real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic, time
from typing import Final

from connectors.pegasus.rpc.wire import Struct
from connectors.sandbox.pegasus.cluster import Cluster
from connectors.sandbox.pegasus.state import MetaSettings, Node

VERSION: Final = "2.6.0-SNAPSHOT"
COMMIT: Final = "db756dcdf24e2af6169659a67548501ed61f106c"
_EPOCH_S: Final = time() - monotonic()
"""Read once, so that every answer gives the same start time."""

_BOOLEANS: Final = {
    "meta.lb.only_move_primary": "only_move_primary",
    "meta.lb.only_primary_balancer": "only_primary_balancer",
    "meta.lb.balancer_in_turn": "balancer_in_turn",
    "meta.lb.add_secondary_enable_flow_control": "add_secondary_enable_flow_control",
}
_NUMBERS: Final = {
    "meta.lb.assign_delay_ms": "assign_delay_ms",
    "meta.lb.add_secondary_max_count_for_one_node": "add_secondary_max_count_for_one_node",
    "meta.live_percentage": "live_percentage",
}
_RATES: Final = {
    "nfs.max_copy_rate_megabytes_per_disk": "500",
    "nfs.max_send_rate_megabytes_per_disk": "500",
}
_Handler = Callable[[Cluster, Sequence[str]], str]


def answer_meta(cluster: Cluster, body: Struct, *, leads: bool) -> str:
    """Answer a command to a meta server; one that does not lead does not know ``meta.lb``."""
    name, arguments = body.cmd or "", body.arguments or []
    if name == "server-info":
        return _server_info(cluster.state.led_since_s)
    if not leads:
        return _unknown(name)
    if name in _BOOLEANS:
        return _boolean(cluster.state.settings, name, arguments)
    if name in _NUMBERS:
        return _number(cluster.state.settings, name, arguments)
    handler = _HANDLERS.get(name)
    return _unknown(name) if handler is None else handler(cluster, arguments)


def answer_replica(cluster: Cluster, node: Node, body: Struct) -> str:
    """Answer a command to a replica server."""
    name = body.cmd or ""
    if node.is_mute or cluster.state.faults.answer is not None:
        return cluster.state.faults.answer or _unknown(name)
    if name == "server-info":
        return _server_info(node.started_s)
    if name == "replica.kill_partition":
        return _kill_partition(cluster, node.name, body.arguments or [])
    if name in _RATES:
        rates = cluster.copy_rates.setdefault(node.name, dict(_RATES))
        if body.arguments:
            rates[name] = body.arguments[0] if body.arguments[0] != "DEFAULT" else _RATES[name]
            return _text({"error": "ok"})
        return _text({"error": "ok", name: rates[name]})
    return "Flush done." if name == "flush-log" else _unknown(name)


def _unknown(name: str) -> str:
    return f"unknown command '{name}'"


def _text(body: dict[str, object]) -> str:
    return json.dumps(body, indent=2, sort_keys=True)


def _kill_partition(cluster: Cluster, node: str, arguments: Sequence[str]) -> str:
    """Close one replica, those of a table, or all; only one that is named has to be there."""
    if len(arguments) > 2 or not all(one.isdecimal() for one in arguments):
        return "ERR_INVALID_PARAMETERS"
    named = tuple(int(one) for one in arguments)
    found = [gpid for gpid in cluster.state.partitions if gpid[: len(named)] == named]
    closed = [cluster.meta.kill(node, gpid) for gpid in found]
    return "ERR_OK" if len(named) < 2 or any(closed) else "ERR_OBJECT_NOT_FOUND"


def _server_info(started_s: float) -> str:
    info = {
        "build_type": "Release",
        "git_SHA": COMMIT,
        "start_time": f"{datetime.fromtimestamp(_EPOCH_S + started_s, UTC):%Y-%m-%d %H:%M:%S}",
        "version": VERSION,
    }
    return json.dumps(info, separators=(",", ":"))


def _boolean(settings: MetaSettings, name: str, arguments: Sequence[str]) -> str:
    field = _BOOLEANS[name]
    if not arguments:
        return _text({"error": "ok", name: str(getattr(settings, field)).lower()})
    if arguments[0] not in {"true", "false"}:
        why = f"ERR: invalid arguments, '{arguments[0]}' is not a boolean"
        return _text({"error": why})
    setattr(settings, field, arguments[0] == "true")
    return _text({"error": "ok"})


def _number(settings: MetaSettings, name: str, arguments: Sequence[str]) -> str:
    field = _NUMBERS[name]
    if not arguments:
        return _text({"error": "ok", name: str(getattr(settings, field))})
    if arguments[0] == "DEFAULT":
        setattr(settings, field, getattr(MetaSettings(), field))
        return _text({"error": "ok", name: getattr(settings, field)})
    if not arguments[0].isdecimal():
        why = f"ERR: invalid argument '{arguments[0]}', the value is not acceptable"
        return _text({"error": why})
    setattr(settings, field, int(arguments[0]))
    return _text({"error": "ok"})


def _operation_count(cluster: Cluster, arguments: Sequence[str]) -> str:
    counts = cluster.state.counts
    if arguments and arguments[0] == "detail":
        return _text(
            {
                "copy_pri": counts.copy_primary,
                "copy_sec": counts.copy_secondary,
                "move_pri": counts.move_primary,
                "total": counts.total,
            }
        )
    if not arguments or arguments[0] == "total":
        return _text({"total": counts.total})
    return _text({"error": "invalid arguments"})


def _black_list(cluster: Cluster, arguments: Sequence[str]) -> str:
    settings = cluster.state.settings
    if not arguments:
        listed = ",".join(settings.black_list)
        return _text({"assign_secondary_black_list": listed, "error": "ok"})
    named = () if arguments[0] == "clear" else tuple(arguments[0].split(","))
    settings.black_list = named
    return _text({"error": "ok"})


def _ignored_tables(cluster: Cluster, arguments: Sequence[str]) -> str:
    settings, words = cluster.state.settings, list(arguments)
    if words == ["get"]:
        listed = ",".join(str(one) for one in settings.ignored_app_ids)
        return _text({"ignored_app_id_list": listed})
    if words == ["clear"]:
        settings.ignored_app_ids = ()
        return _text({"error": "ok"})
    if len(words) == 2 and words[0] == "set" and words[1].replace(",", "").isdecimal():
        settings.ignored_app_ids = tuple(int(one) for one in words[1].split(",") if one)
        return _text({"error": "ok"})
    return _text({"error": "invalid arguments"})


_HANDLERS: Final[dict[str, _Handler]] = {
    "meta.lb.get_balance_operation_count": _operation_count,
    "meta.lb.assign_secondary_black_list": _black_list,
    "meta.lb.ignored_app_list": _ignored_tables,
}
