"""Settings of the servers of a cluster, by the names that steps and saved settings have.

``meta level``; ``key``: of the leading meta server; ``key@node``: of one replica server; ``key@*``:
of every living one, a single value where all agree, else a JSON object of node to value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from connectors.pegasus.acting.partition_reader import PartitionReader
from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.rpc.client import MetaClient, ServerClient
from core.errors import (
    ConflictError,
    GuardRefusedError,
    InputError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    UnreachableError,
)
from core.pegasus.answers import NodeEntry
from core.pegasus.levels import parse_level
from core.pegasus.server_settings import ChangeableSetting, canonical, changeable, desired_value
from core.pegasus.steps.level import LEVEL_KEY
from core.pegasus.steps.setting import EVERY_NODE, LEADER
from core.units import is_whole

DEFAULT: Final = "DEFAULT"
_LISTS: Final = ("nodes", "tables")
_NUMBERS: Final = ("number", "percent")
_IGNORED: Final = "meta.lb.ignored_app_list"
_ANSWERED_AS: Final = {_IGNORED: "ignored_app_id_list"}
_PREFIX: Final = "meta.lb."
_TICK: Final = "lb_interval_ms"


class ServerSettings:
    """Reads and changes settings; nothing that is not on the list of what may be changed.

    Args:
        client: Of the cluster's meta servers.
        timeout_s: For one answer of a server.
        max_bytes: Of the longest answer that is read.
    """

    def __init__(self, client: MetaClient, timeout_s: float, max_bytes: int) -> None:
        self._client = client
        self._reader = PartitionReader(client)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    # -- by name --------------------------------------------------------------------------------

    def value(self, name: str) -> str | None:
        """Return a setting's value as the servers write it; ``None`` if no server reports it.

        Raises:
            RemoteError: It cannot be read.
        """
        if name == LEVEL_KEY:
            return self._client.fetch_stored_level().word
        setting, server = _found(name)
        if server == LEADER:
            value = self._of_leader(setting)
            return None if value is None else canonical(setting, value)
        reported = {node.name: self._of_node(setting, node) for node in self._addressed(server)}
        values = {value for value in reported.values() if value is not None}
        if len(values) == 1 and None not in reported.values():
            return values.pop()
        known = {node: value for node, value in reported.items() if value is not None}
        return json.dumps(known, sort_keys=True) if known and server == EVERY_NODE else None

    def set_value(self, name: str, value: str | None) -> None:
        """Change a setting; ``None`` resets it to the server's default, if it has one.

        Raises:
            RemoteError: It was refused, or its outcome is unknown. With some of many nodes set and
                others not the outcome is ``unknown``, and the message names them.
        """
        if name == LEVEL_KEY:
            self._set_level(value)
            return
        setting, server = _found(name)
        if server == LEADER:
            self._to_leader(setting, _checked(setting, value))
            return
        wanted = _by_node(value) if server == EVERY_NODE else None
        failures: dict[str, RemoteError] = {}
        addressed = 0
        for node in self._addressed(server):
            if wanted is not None and node.name not in wanted:
                continue  # it was dead or not there when the values were read
            text = _checked(setting, value if wanted is None else wanted[node.name])
            addressed += 1
            try:
                self._to_node(setting, node, text)
            except RemoteError as exc:
                failures[node.name] = exc
        if failures:
            raise _failure(name, addressed, failures)

    def _set_level(self, value: str | None) -> None:
        if value is None:
            raise _refused(
                LEVEL_KEY,
                "The level has no default.",
                "Use stopped, blind, freezed, steady or lively.",
            )
        try:
            self._client.apply_level(parse_level(value))
        except (InputError, GuardRefusedError) as exc:
            raise _refused(LEVEL_KEY, exc.message, exc.hint) from exc

    # -- the leading meta server ----------------------------------------------------------------

    def _of_leader(self, setting: ChangeableSetting) -> str | None:
        if setting.setting.how == "flag":
            with self._http(self._leader()) as http:
                return http.fetch_flag(setting.key).value
        words = ("get",) if setting.key == _IGNORED else ()
        return read_answer(setting.key, self._client.send_command(setting.key, *words))

    def tick_s(self) -> float | None:
        """Return the meta server's check interval, or ``None`` if not reported.

        Raises:
            RemoteError: It cannot be reached.
        """
        with self._http(self._leader()) as http:
            tick = http.fetch_flag(_TICK).value
        return float(tick) / 1000 if is_whole(tick) and int(tick) else None

    def _to_leader(self, setting: ChangeableSetting, value: str) -> None:
        if setting.setting.how == "flag":
            with self._http(self._leader()) as http:
                http.apply_flag(setting.key, value)
            return
        check_accepted(
            setting.key, value, self._client.send_command(setting.key, *words_of(setting, value))
        )

    def _leader(self) -> str:
        leader = self._client.fetch_cluster_info().leader
        if not leader:
            raise UnreachableError(
                "No meta server is the leader.",
                endpoint="pegasus",
                operation="find the leader",
                outcome="not_sent",
                hint="Try again later.",
            )
        return leader

    # -- replica servers ------------------------------------------------------------------------

    def _addressed(self, server: str) -> list[NodeEntry]:
        nodes = self._reader.nodes()
        if server == EVERY_NODE:
            return [node for _, node in sorted(nodes.items()) if node.is_alive]
        node = nodes.get(server)
        if node is None:
            raise NotFoundError(
                f"{server} is not the registered name of a node.",
                endpoint=server,
                operation="find the node",
                outcome="not_sent",
                hint=f"Registered: {', '.join(sorted(nodes)[:8])}.",
            )
        return [node]

    def _of_node(self, setting: ChangeableSetting, node: NodeEntry) -> str | None:
        return read_answer(setting.key, self.request(node, setting.key))

    def _to_node(self, setting: ChangeableSetting, node: NodeEntry, value: str) -> None:
        check_accepted(
            setting.key, value, self.request(node, setting.key, *words_of(setting, value))
        )

    def request(self, node: NodeEntry, command: str, *arguments: str) -> Any:
        """Send a remote command to a node, by its name, else by its address.

        Raises:
            RemoteError: It cannot be reached, or knows no such command.
        """
        return self.reached(node, lambda server: server.send_command(command, *arguments))

    def reached(self, node: NodeEntry, speak: Callable[[ServerClient], Any]) -> Any:
        """Let a node be spoken to under the first of its addresses that can be connected to."""
        addresses = [node.name, *([node.address] if node.address else [])]
        for place, address in enumerate(addresses, 1):
            server = ServerClient(address, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
            try:
                return speak(server)
            except UnreachableError as exc:
                if exc.outcome != "not_sent" or place == len(addresses):
                    raise
            finally:
                server.close()
        raise AssertionError("a node needs an address")  # pragma: no cover  # the loop returns

    @contextmanager
    def _http(self, address: str) -> Iterator[HttpClient]:
        client = HttpClient(address, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
        try:
            yield client
        finally:
            client.close()


def is_same(name: str, one: str | None, other: str | None) -> bool:
    """Return whether two values of a setting mean the same, regardless of order and case."""
    if one is None or other is None:
        return one is other
    key = name.partition("@")[0]
    return _meaning(key, one) == _meaning(key, other)


def _meaning(key: str, value: str) -> object:
    text = value.strip()
    if text.startswith("{"):
        return tuple(sorted((_by_node(text) or {}).items()))
    if key != LEVEL_KEY and changeable(key).setting.kind in _LISTS:
        return "" if text == "clear" else canonical(changeable(key), text)
    return text.lower()


def _found(name: str) -> tuple[ChangeableSetting, str]:
    key, _, server = name.partition("@")
    try:
        setting = changeable(key)
    except InputError as exc:
        raise _refused(name, exc.message, exc.hint) from exc
    if (setting.whose == "meta") != (server == LEADER):
        whose = "the leading meta server" if setting.whose == "meta" else "replica servers"
        raise _refused(name, f"{key} is a setting of {whose}.", "Specify that server.")
    return setting, server


def _checked(setting: ChangeableSetting, value: str | None) -> str:
    """Return the value to send; a value that no server may get is refused here."""
    if value is None or value == DEFAULT:
        takes_word = setting.setting.how == "command" and setting.setting.kind in _NUMBERS
        return DEFAULT if takes_word else setting.setting.default
    try:
        return desired_value(setting, value)
    except InputError as exc:
        raise _refused(setting.key, exc.message, exc.hint) from exc


def words_of(setting: ChangeableSetting, value: str) -> tuple[str, ...]:
    """Return the arguments of the remote command that sets a value."""
    if setting.setting.kind in _LISTS and not value:
        return ("clear",)
    return ("set", value) if setting.key == _IGNORED else (value,)


def read_answer(key: str, answer: Any) -> str | None:
    """Return the value in the answer of a remote command."""
    if not isinstance(answer, Mapping):
        return None
    names = (_ANSWERED_AS.get(key, key), key.removeprefix(_PREFIX))
    value = next((answer[name] for name in names if name in answer), None)
    return None if value is None else str(value)


def check_accepted(key: str, value: str, answer: Any) -> None:
    """Raise unless a server has taken a value."""
    error = answer.get("error", "") if isinstance(answer, Mapping) else str(answer)
    if error in ("ok", "OK", "ERR_OK"):
        return
    raise ConflictError(
        f"{key} was not set to {value or 'an empty list'}: {error or answer}.",
        endpoint="pegasus",
        operation=f"remote command {key}",
        outcome="refused",
        hint="Check the value.",
    )


def _by_node(value: str | None) -> dict[str, str] | None:
    """Return the values of single nodes, ``None`` where one value is meant for all."""
    if value is None or not value.startswith("{"):
        return None
    try:
        values = json.loads(value)
    except ValueError as exc:
        raise ProtocolError(
            "A saved setting is not a JSON object of node to value.",
            endpoint="journal",
            operation="read a saved setting",
            outcome="not_sent",
            hint="Set the nodes manually.",
        ) from exc
    return {str(node): str(text) for node, text in values.items()}


def _failure(name: str, addressed: int, failures: Mapping[str, RemoteError]) -> RemoteError:
    """Return the exception for failed servers: their own error, unless others succeeded."""
    first = next(iter(failures.values()))
    if len(failures) == addressed:
        return next((one for one in failures.values() if one.outcome == "unknown"), first)
    return ConflictError(
        f"{name} was set on {addressed - len(failures)} of {addressed} nodes, not on "
        f"{', '.join(failures)}: {first.message}",
        endpoint="pegasus",
        operation=f"set {name}",
        outcome="unknown",
        hint="Check these nodes, then plan again.",
    )


def _refused(name: str, why: str, hint: str) -> ConflictError:
    return ConflictError(
        why, endpoint="pegasus", operation=f"set {name}", outcome="not_sent", hint=hint
    )
