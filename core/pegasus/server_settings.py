"""What can be changed on the servers of a Pegasus cluster while they run: where, how, how safely.

The meta servers' settings are in :mod:`core.pegasus.settings`; here are those of the replica
servers, the value of each in a snapshot, and which values would do harm.

Source: Pegasus ``nfs_client_impl``, ``nfs_server_impl``, ``cluster_balance_policy``,
``app_balance_policy``, ``meta_service::check_freeze`` (2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from core.errors import InputError, UnknownNameError
from core.pegasus.ids import parse_node
from core.pegasus.settings import SERVER_SETTINGS, ServerSetting, checked_value
from core.pegasus.snapshot import PegasusFacts
from core.units import is_whole

Whose = Literal["meta", "replica"]

COPY_RATE: Final = "nfs.max_copy_rate_megabytes_per_disk"
SEND_RATE: Final = "nfs.max_send_rate_megabytes_per_disk"
ASSIGN_DELAY: Final = "meta.lb.assign_delay_ms"
BLACK_LIST: Final = "meta.lb.assign_secondary_black_list"
FLOW_CONTROL: Final = "meta.lb.add_secondary_enable_flow_control"
ADD_LIMIT: Final = "meta.lb.add_secondary_max_count_for_one_node"
LIVE_PERCENTAGE: Final = "meta.live_percentage"
ONLY_MOVE_PRIMARY: Final = "meta.lb.only_move_primary"

MIN_RATE_MB_PER_S: Final = 5
"""The slowest copying that a server takes: a block of 4 MiB must fit into a second; 0: no limit."""

_RATE_COLUMNS: Final = {COPY_RATE: "copy_rate_mb_per_s", SEND_RATE: "send_rate_mb_per_s"}
_LOST: Final = "Lost when the replica server restarts."
_REPLICA: Final = tuple(
    ServerSetting(
        name=key,
        key=key,
        how="command",
        kind="number",
        default="0",
        meaning=f"Rate limit of one disk of a node that {verb}, MB/s; 0: unlimited.",
        note=f"The server refuses values from 1 to {MIN_RATE_MB_PER_S - 1}. {_LOST}",
    )
    for key, verb in ((COPY_RATE, "receives copies"), (SEND_RATE, "sends copies"))
)
_SHIPPED: Final = {
    FLOW_CONTROL: "true",
    ADD_LIMIT: "20",
    LIVE_PERCENTAGE: "50",
    ASSIGN_DELAY: "600000",
}


@dataclass(frozen=True)
class ChangeableSetting:
    """A setting that can be changed while its servers run.

    Attributes:
        setting: Its name, key, kind, compiled default and meaning.
        whose: Of the leading meta server, or of every replica server.
        shipped: What the shipped configuration says; ``None`` if only compiled values are known.
    """

    setting: ServerSetting
    whose: Whose
    shipped: str | None = None

    @property
    def key(self) -> str:
        """Name of the remote command, or of the flag."""
        return self.setting.key


CHANGEABLE: Final = (
    *(
        ChangeableSetting(setting, "meta", _SHIPPED.get(setting.key))
        for setting in SERVER_SETTINGS
        if setting.is_mutable
    ),
    *(ChangeableSetting(setting, "replica") for setting in _REPLICA),
)
"""All of them, the meta server's first."""


@dataclass(frozen=True)
class Danger:
    """Effect of a dangerous value.

    Attributes:
        weight: ``refused``: it must not be set at all.
        code: Stable word.
        sentence: What would happen.
        hint: What to do instead.
    """

    weight: Literal["refused", "warning"]
    code: str
    sentence: str
    hint: str = ""


def changeable(name: str) -> ChangeableSetting:
    """Return a setting by its upstream key, or by its name in a snapshot.

    Raises:
        UnknownNameError: None that can be changed has that name; the hint has near ones.
        InputError: It is fixed while the servers run.
    """
    for one in CHANGEABLE:
        if name in (one.key, one.setting.name):
            return one
    if any(name in (fixed.key, fixed.name) for fixed in SERVER_SETTINGS):
        raise InputError(
            f"{name} cannot be changed at run time.",
            hint="It is set in the server's configuration file.",
        )
    raise UnknownNameError.of("server setting", name, [one.key for one in CHANGEABLE])


def desired_value(one: ChangeableSetting, text: str) -> str:
    """Return a desired value as the server reports it; an empty list is empty.

    Raises:
        InputError: The setting does not take it.
    """
    if one.setting.kind in ("nodes", "tables") and text.strip().lower() == "clear":
        return ""
    value = canonical(one, checked_value(one.setting, text))
    if one.setting.kind in ("number", "percent"):
        value = str(int(value))
    elif value and one.setting.kind in ("nodes", "tables"):
        value = _in_order(one.setting.kind, value)
    if one.key in _RATE_COLUMNS and 0 < int(value) < MIN_RATE_MB_PER_S:
        raise InputError(
            f"{one.key} cannot be {value}: a block of 4 MiB exceeds that rate.",
            hint=f"Use 0 for unlimited, or {MIN_RATE_MB_PER_S} or more.",
        )
    if one.key == "min_live_node_count_for_unfreeze" and value == "0":
        raise InputError(f"{one.key} must be above 0.", hint="The minimum is 1.")
    return value


def _in_order(kind: str, value: str) -> str:
    """Return a list in the server's order: it keeps sorted sets."""
    parts = set(value.split(","))
    ordered = sorted(parts, key=parse_node) if kind == "nodes" else sorted(parts, key=int)
    return ",".join(ordered)


def canonical(one: ChangeableSetting, value: str) -> str:
    """Return a value in the one form in which it is compared: lists in order, each name once.

    Servers keep lists as sets and report them in an order of their own.
    """
    parts = {part.strip() for part in value.split(",")} - {""}
    if one.setting.kind == "nodes":
        return ",".join(sorted(parts))
    if one.setting.kind == "tables" and all(is_whole(part) for part in parts):
        return ",".join(sorted(parts, key=int))
    return value


def value_before(
    one: ChangeableSetting, facts: PegasusFacts, server: str | None = None
) -> str | None:
    """Return a setting's value in a snapshot, in server syntax, or ``None`` if unknown.

    Args:
        facts: The snapshot.
        server: For a setting of replica servers the registered name of one; ``None`` for every
            living one, as a JSON object of node to value where they differ.
    """
    if one.whose == "meta":
        value = facts.snapshot.settings.get(one.setting.name)
        return None if value is None else canonical(one, value)
    column = _RATE_COLUMNS[one.key]
    reported = {
        row["node"]: None if row[column] is None else f"{row[column]:g}"
        for row in facts.rows("nodes")
        if row["is_alive"] and (server is None or row["node"] == server)
    }
    known = {node: value for node, value in reported.items() if value is not None}
    if not known or len(known) < len(reported):
        return None
    values = set(known.values())
    return values.pop() if len(values) == 1 else json.dumps(known, sort_keys=True)


def dangers(one: ChangeableSetting, value: str, facts: PegasusFacts) -> Iterator[Danger]:
    """Report what a checked value would do that its name does not say."""
    check = _DANGERS.get(one.key)
    if check is not None:
        yield from check(value, facts)


def _of_cluster_policy(value: str, facts: PegasusFacts) -> Iterator[Danger]:
    if value != "true":
        return
    single = sorted(table.name for table in facts.tables.values() if table.max_replica_count == 1)
    if single:
        yield Danger(
            "refused",
            "kills_meta_server",
            f"{single[0]} has a single replica: the cluster policy crashes the leading "
            "meta server on such a table.",
            "Keep balance_cluster at false while tables have one replica.",
        )
    if facts.snapshot.settings.get("ignored_app_list"):
        yield _IGNORED_IN_VAIN
    yield Danger(
        "warning",
        "may_circle",
        "The cluster policy counts nothing at steady, and at lively it may copy the "
        "same replicas back and forth endlessly.",
        "Simulate it first: trimtab pegasus balance --policy cluster --rounds 0.",
    )


def _of_ignored_tables(value: str, facts: PegasusFacts) -> Iterator[Danger]:
    unknown = [text for text in value.split(",") if text and int(text) not in facts.tables]
    if unknown:
        sentence = f"No serving table has the id {unknown[0]}."
        yield Danger("warning", "table_unknown", sentence)
    if value and facts.snapshot.settings.get("balance_cluster") == "true":
        yield _IGNORED_IN_VAIN


def _of_black_list(value: str, facts: PegasusFacts) -> Iterator[Danger]:
    names = sorted(node.name for node in facts.nodes)
    for name in value.split(",") if value else ():
        if name not in names:
            sentence = f"{name} is not the registered name of a node: it would exclude no node."
            yield Danger(
                "refused", "node_unknown", sentence, f"Registered: {', '.join(names[:8])}."
            )


def _of_add_limit(_value: str, facts: PegasusFacts) -> Iterator[Danger]:
    if facts.snapshot.settings.get(FLOW_CONTROL.removeprefix("meta.lb.")) == "false":
        sentence = "This limit has no effect while flow control is off."
        yield Danger("warning", "not_consulted", sentence, f"Set {FLOW_CONTROL} to true as well.")


def _of_live_percentage(value: str, facts: PegasusFacts) -> Iterator[Danger]:
    alive = sum(node.is_alive for node in facts.nodes)
    if alive * 100 < int(value) * len(facts.nodes):
        yield _freezing(alive, len(facts.nodes))


def _of_least_nodes(value: str, facts: PegasusFacts) -> Iterator[Danger]:
    alive = sum(node.is_alive for node in facts.nodes)
    if alive < int(value):
        yield _freezing(alive, len(facts.nodes))


def _freezing(alive: int, known: int) -> Danger:
    return Danger(
        "refused",
        "would_freeze",
        f"With {alive} of {known} nodes alive the effective level would become freezed at once.",
        "Choose a lower value, or start the missing nodes first.",
    )


_IGNORED_IN_VAIN: Final = Danger(
    "warning",
    "not_consulted",
    "The cluster policy ignores the list of ignored tables.",
    "With balance_cluster=true every table is balanced.",
)
_DANGERS: Final[Mapping[str, Callable[[str, PegasusFacts], Iterator[Danger]]]] = {
    "balance_cluster": _of_cluster_policy,
    "meta.lb.ignored_app_list": _of_ignored_tables,
    BLACK_LIST: _of_black_list,
    ADD_LIMIT: _of_add_limit,
    LIVE_PERCENTAGE: _of_live_percentage,
    "min_live_node_count_for_unfreeze": _of_least_nodes,
}
