"""The settings of a Pegasus cluster that decide how it repairs and balances: what each means.

Source: Pegasus ``partition_guardian``, ``load_balance_policy``, ``app_balance_policy``,
``greedy_load_balancer``, ``meta_service`` and ``nfs`` (2.6.0-SNAPSHOT, db756dc): compiled defaults;
the shipped configuration says otherwise where it is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from core.errors import InputError, UnknownNameError
from core.units import is_whole

How = Literal["command", "flag"]
Kind = Literal["switch", "number", "percent", "nodes", "tables"]


@dataclass(frozen=True, kw_only=True)
class ServerSetting:
    """One setting of the leading meta server.

    Attributes:
        name: As a snapshot keeps it.
        key: Of the remote command or of the flag.
        how: A remote command, or a flag that ``/updateConfig`` sets.
        kind: What values it takes.
        default: Compiled in.
        meaning: One or two sentences.
        note: What is easily got wrong; may be empty.
        is_mutable: It can be changed while the server runs.
    """

    name: str
    key: str
    how: How
    kind: Kind
    default: str
    meaning: str
    note: str = ""
    is_mutable: bool = True


_FORGOTTEN: Final = "Lost when the meta server restarts or another one becomes the leader."


def _command(name: str, kind: Kind, default: str, meaning: str, note: str = "") -> ServerSetting:
    return ServerSetting(
        name=name,
        key=name if name.startswith("meta.") else f"meta.lb.{name}",
        how="command",
        kind=kind,
        default=default,
        meaning=meaning,
        note=f"{note} {_FORGOTTEN}".strip(),
    )


def _flag(
    name: str, kind: Kind, default: str, meaning: str, *, note: str = "", is_mutable: bool = True
) -> ServerSetting:
    return ServerSetting(
        name=name,
        key=name,
        how="flag",
        kind=kind,
        default=default,
        meaning=meaning,
        note=note,
        is_mutable=is_mutable,
    )


SERVER_SETTINGS: Final = (
    _flag(
        "balance_cluster",
        "switch",
        "false",
        "Balancing policy: false balances every table separately, true the whole cluster.",
        note="With true nothing is counted at steady, and switches of the table policy "
        "have no effect.",
    ),
    _command(
        "only_move_primary",
        "switch",
        "false",
        "Primaries change roles with a secondary and are not copied to another node.",
        "It does not stop copies of secondaries.",
    ),
    _command(
        "only_primary_balancer",
        "switch",
        "false",
        "Only primaries are balanced; secondaries are not copied.",
    ),
    _command(
        "balancer_in_turn",
        "switch",
        "false",
        "Balances one table per round instead of all.",
        "Applies to the table policy.",
    ),
    _flag(
        "balance_op_count_per_round",
        "number",
        "10",
        "Max copies that one round of the cluster policy plans.",
        note="The table policy ignores it.",
    ),
    _command(
        "ignored_app_list",
        "tables",
        "",
        "Ids of tables that the table policy ignores.",
        "The cluster policy moves them anyway.",
    ),
    _command(
        "assign_delay_ms",
        "number",
        "600000",
        "Time that a lost secondary has to return before another node gets it.",
    ),
    _command(
        "assign_secondary_black_list",
        "nodes",
        "",
        "Nodes that never receive a new secondary: host:port, comma-separated.",
        "A new value replaces the whole list.",
    ),
    _command(
        "add_secondary_enable_flow_control",
        "switch",
        "false",
        "Limits the secondaries that are added on one node per tick.",
        "The shipped configuration sets true.",
    ),
    _command(
        "add_secondary_max_count_for_one_node",
        "number",
        "10",
        "Max secondaries that are added on one node per tick, where limited.",
        "The shipped configuration sets 20.",
    ),
    _command(
        "meta.live_percentage",
        "percent",
        "65",
        "With a lower share of known nodes alive the effective level is freezed.",
        "A node counts as known until the meta server restarts. The shipped configuration sets 50.",
    ),
    _flag(
        "min_live_node_count_for_unfreeze",
        "number",
        "3",
        "With fewer nodes alive the effective level is freezed.",
    ),
    _flag(
        "mutation_2pc_min_replica_count",
        "number",
        "2",
        "Replicas that a write needs; 0: more than half of the configured replicas.",
        note="The replica servers have their own value, which applies.",
        is_mutable=False,
    ),
    _flag(
        "lb_interval_ms",
        "number",
        "10000",
        "Interval of the meta server's repairs, counts and balancing.",
        is_mutable=False,
    ),
)
"""In the order in which they are shown."""

SERVER_SETTING_BY_NAME: Final[Mapping[str, ServerSetting]] = {
    setting.name: setting for setting in SERVER_SETTINGS
}


def server_setting(name: str) -> ServerSetting:
    """Return a setting by its name in a snapshot, or by its upstream key.

    Raises:
        UnknownNameError: There is none.
    """
    for setting in SERVER_SETTINGS:
        if name in (setting.name, setting.key):
            return setting
    known = [setting.key for setting in SERVER_SETTINGS]
    raise UnknownNameError.of("server setting", name, known)


def checked_value(setting: ServerSetting, text: str) -> str:
    """Return a desired value in upstream's form.

    Raises:
        InputError: It is none that the setting takes, or the setting is fixed while servers run.
    """
    value = text.strip()
    if not setting.is_mutable:
        raise InputError(
            f"{setting.key} cannot be changed at run time.",
            hint="It is set in the server's configuration file.",
        )
    if not _fits(setting.kind, value):
        raise InputError(f"{setting.key} cannot be {value!r}.", hint=_FORMS[setting.kind])
    return value.lower() if setting.kind == "switch" else value


def _fits(kind: Kind, value: str) -> bool:
    match kind:
        case "switch":
            return value.lower() in ("true", "false")
        case "number":
            return is_whole(value)
        case "percent":
            return is_whole(value) and int(value) <= 100
        case "nodes":
            return all(_is_node(part) for part in value.split(",")) if value else True
        case "tables":
            return all(is_whole(part) for part in value.split(",")) if value else True


def _is_node(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and is_whole(port)


_FORMS: Final[Mapping[Kind, str]] = {
    "switch": "Use true or false.",
    "number": "Use a whole number, 0 or more.",
    "percent": "Use a whole number from 0 to 100.",
    "nodes": "Use registered names host:port, comma-separated; the list cannot be cleared.",
    "tables": "Use table ids, comma-separated; the list cannot be cleared.",
}
