"""Rules about the addresses that brokers give to clients and to each other.

A broker registers its id (``host:webPort``), its web and broker URLs, the addresses of its
listeners and those of protocol handlers. A lookup returns one of them: whatever it is, the client
connects there and nowhere else.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.findings.finding import Cost, Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.rules.context import HealthContext
from core.units import pluralize, same_problem

ADVERTISED: Final = "advertisedAddress"
LISTENERS: Final = "advertisedListeners"
_URLS: Final = {
    "web_url": "http",
    "web_url_tls": "https",
    "service_url": "broker",
    "service_url_tls": "broker+ssl",
}
_DEFAULT_PORTS: Final = (8080, 8443, 6650, 6651)
_STANDALONE: Final = "standalone"
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Address:
    """One address of a broker.

    Attributes:
        broker: Id.
        kind: ``id``, ``http``, ``https``, ``broker``, ``broker+ssl``, ``listener external`` or
            ``protocol kafka``.
        scheme: Of the URL; blank for an id.
        host: In lower case.
        port: ``None`` where there is none.
    """

    broker: str
    kind: str
    scheme: str
    host: str
    port: int | None

    @classmethod
    def of(cls, broker: str, kind: str, url: str) -> Address:
        """Read a URL or an id; what cannot be read is a host as a whole."""
        scheme, mark, rest = url.partition("://")
        try:  # a scheme of a protocol handler may be none to the standard (KAFKA_EXTERNAL)
            parts = urlsplit(f"//{rest if mark else url}")
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port = url, None
        return cls(broker, kind, scheme if mark else "", host, port)

    @property
    def text(self) -> str:
        """``host:port``."""
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def is_malformed(self) -> bool:
        """Whether it has no host that a client could connect to."""
        if any(letter in self.host for letter in ", /;") or not self.host:
            return True
        return ":" in self.host and self.ip is None

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The host as an IP address, or ``None`` if it is a name."""
        if not (self.host[:1].isdigit() or ":" in self.host):
            return None
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_unspecified(self) -> bool:
        """Whether it is 0.0.0.0 or ``::``: a listen address only."""
        ip = self.ip
        return ip is not None and ip.is_unspecified

    @property
    def is_loopback(self) -> bool:
        """Whether it is the caller's own host."""
        ip = self.ip
        return self.host == "localhost" or (ip is not None and ip.is_loopback)

    @property
    def is_for_clients(self) -> bool:
        """Whether Pulsar clients are sent there."""
        return not self.kind.startswith("protocol ")


@dataclass(frozen=True, eq=False)
class Addresses:
    """Every address of every broker.

    Attributes:
        all: In the order of the brokers.
        brokers: Ids of those with a URL, so that a missing one is known to be missing.
    """

    all: tuple[Address, ...]
    brokers: tuple[str, ...]

    @classmethod
    def of(cls, context: HealthContext) -> Addresses:
        """Return those of a snapshot."""
        return context.snapshot.derived.get("addresses", lambda: cls._read(context))

    @classmethod
    def _read(cls, context: HealthContext) -> Addresses:
        table = context.snapshot.brokers.select(
            ["broker", *_URLS, "advertised_listeners", "protocols"]
        )
        found: list[Address] = []
        known: list[str] = []
        for row in table.to_pylist():
            name = row["broker"]
            found.append(Address.of(name, "id", name))
            urls = {kind: row[column] for column, kind in _URLS.items() if row[column]}
            if urls:
                known.append(name)
            found += [Address.of(name, kind, url) for kind, url in urls.items()]
            for column, word in (("advertised_listeners", "listener"), ("protocols", "protocol")):
                for entry in row[column] or ():
                    label, _, url = entry.partition(":")
                    found.append(Address.of(name, f"{word} {label}", url))
        return cls(tuple(found), tuple(known))


def unusable_addresses(context: HealthContext) -> Iterator[Finding]:
    """Addresses that lead nowhere, or to the caller's own host."""
    addresses = Addresses.of(context)
    if not addresses.all:
        return
    nowhere = [one for one in addresses.all if one.is_unspecified or one.is_malformed]
    yield from _unusable(context, nowhere, "unroutable_address")
    loopback = [one for one in addresses.all if one.is_loopback]
    if not loopback or not _is_local(context, addresses):
        yield from _unusable(context, loopback, "loopback_address")
        return
    names = {one.broker for one in loopback}
    yield Finding(
        code="local_addresses",
        title="Brokers are reachable from their host only",
        measured=Quantity(len(names), "brokers"),
        severity="info",
        subject_kind="cluster",
        subject="",
        sentence=f"{pluralize(len(names), 'broker')} with loopback addresses: a cluster "
        "on one host, unreachable for clients on other hosts.",
        evidence={"rows": sorted({one.text for one in loopback})[:_SHOWN]},
    )


def _is_local(context: HealthContext, addresses: Addresses) -> bool:
    """Whether the whole cluster runs on one host on purpose.

    Brokers of a cluster on one host have ports of their own. One broker with the default port is
    what is left of several that register the same id, unless it is a standalone.
    """
    if not all(one.is_loopback for one in addresses.all if one.is_for_clients):
        return False
    ids = [one for one in addresses.all if one.kind == "id"]
    if len(ids) > 1 or context.snapshot.manifest.pulsar_cluster == _STANDALONE:
        return True
    return all(one.port not in _DEFAULT_PORTS for one in ids)


def _unusable(context: HealthContext, found: list[Address], code: str) -> Iterator[Finding]:
    """Yield one finding for all brokers with such addresses for the same purposes."""
    by_broker: dict[str, list[Address]] = {}
    for one in found:
        by_broker.setdefault(one.broker, []).append(one)
    groups: dict[tuple[str, ...], list[str]] = {}
    for broker, mine in by_broker.items():
        groups.setdefault(tuple(dict.fromkeys(one.kind for one in mine)), []).append(broker)
    for kinds, brokers in groups.items():
        is_alone = "id" in kinds and context.snapshot.brokers.num_rows == 1
        is_nowhere = code == "unroutable_address"
        key, first = _key_of(kinds), by_broker[brokers[0]][0]
        others = len(brokers) - 1
        is_of_pulsar = key in (ADVERTISED, LISTENERS)
        yield Finding(
            code=code,
            title="Broker advertises an unusable address"
            if is_nowhere
            else "Broker advertises a loopback address",
            measured=Quantity(first.text),
            # one broker on its loopback may be meant
            severity="error" if is_of_pulsar and (is_nowhere or not is_alone) else "warning",
            subject_kind="broker",
            subject=brokers[0],
            servers=tuple(brokers),
            keys=(key,),
            sentence=f"{brokers[0]} advertises {first.text} ({', '.join(kinds)}), "
            + (
                "which is not a valid address"
                if is_nowhere
                else "which directs every client to its own host"
            )
            + (f"; {same_problem(others, 'other broker')}." if others else "."),
            consequence="It is the only broker: others with the same address replace its "
            "registration or wait for it, and serve nothing."
            if is_alone
            else "Clients that are sent there cannot reach the broker.",
            hint=f"Set {key} on each broker to its own address that clients can reach, "
            "and restart it.",
            fix=Fix(lines=(f"{key}={_EXAMPLE[key]}",), restart=True),
            evidence={
                "rows": [f"{one.broker} {one.kind} {one.text}" for one in by_broker[brokers[0]]],
                "brokers": brokers,
            },
            cost=_cost(context, tuple(brokers)),
        )


_EXAMPLE: Final = {
    ADVERTISED: "<own address of the broker>",
    LISTENERS: "<listener>:pulsar://<own address of the broker>:6650",
    "kafkaAdvertisedListeners": "PLAINTEXT://<own address of the broker>:9092",
}


def _key_of(kinds: Iterable[str]) -> str:
    """Return the setting that corrects an address of these kinds."""
    if all(kind.startswith("protocol ") for kind in kinds):
        return "kafkaAdvertisedListeners"
    return LISTENERS if all(kind.startswith("listener ") for kind in kinds) else ADVERTISED


def shared_addresses(context: HealthContext) -> Iterator[Finding]:
    """One address that several brokers give to clients: which one they reach is chance."""
    owners: dict[tuple[str, int | None], dict[str, list[str]]] = {}
    addresses = Addresses.of(context)
    is_local = _is_local(context, addresses)
    for one in addresses.all:
        if one.kind == "id" or one.is_unspecified or one.is_malformed:
            continue
        if one.is_loopback and not is_local:
            continue  # named already, with every other of them
        by_broker = owners.setdefault((one.host, one.port), {})
        by_broker.setdefault(one.broker, []).append(one.kind)
    groups: dict[tuple[str, ...], list[tuple[str, dict[str, list[str]]]]] = {}
    for (host, port), kinds_of in owners.items():
        if len(kinds_of) > 1:
            text = host if port is None else f"{host}:{port}"
            groups.setdefault(tuple(sorted(kinds_of)), []).append((text, kinds_of))
    for brokers, found in groups.items():
        wrong = _elsewhere(found)
        kinds = sorted({kind for held in wrong.values() for kind in held})
        key = _key_of(kinds)
        texts = [text for text, _ in found]
        is_of_pulsar = key in (ADVERTISED, LISTENERS)
        named = tuple(name for name in brokers if name in wrong)
        others = tuple(name for name in brokers if name not in wrong)
        found_words = f"{', '.join(texts[:_SHOWN])} ({', '.join(kinds)})"
        yield Finding(
            code="shared_address",
            title="Several brokers advertise one address",
            measured=Quantity(len(brokers), "brokers"),
            limit=Quantity(1, "brokers"),
            severity="error" if is_of_pulsar else "warning",
            subject_kind="broker",
            subject=named[0],
            servers=named,
            keys=(key,),
            sentence=f"{_some(named)} {'advertise' if named[1:] else 'advertises'} "
            f"{found_words}, an address of {_some(others)}."
            if others
            else f"{pluralize(len(named), 'broker')} ({_some(named)}) advertise {found_words}.",
            consequence="Clients reach one of them by chance, and the others refuse its "
            "bundles (not served by this instance).",
            hint=f"Set {key} to a unique address on each broker (on Kubernetes one "
            "service, node port or load balancer per pod), and restart it.",
            fix=Fix(lines=(f"{key}={_EXAMPLE[key]}",), restart=True),
            evidence={"addresses": texts, "kinds": kinds, "rows": list(brokers)},
            cost=_cost(context, brokers),
        )


def _elsewhere(found: Sequence[tuple[str, dict[str, list[str]]]]) -> dict[str, list[str]]:
    """Return the brokers with shared addresses that are not their own, and the kinds of those.

    An address with the host of one broker's id is that broker's: only the others are wrong.
    """
    wrong: dict[str, list[str]] = {}
    for text, kinds_of in found:
        host = Address.of("", "", text).host
        own = [broker for broker in kinds_of if Address.of("", "", broker).host == host]
        for broker, kinds in kinds_of.items():
            if len(own) != 1 or broker not in own:
                wrong.setdefault(broker, []).extend(kinds)
    return wrong


def lacking_addresses(context: HealthContext) -> Iterator[Finding]:
    """A kind of address, or a listener, that only some brokers have."""
    addresses = Addresses.of(context)
    known = set(addresses.brokers)
    if len(known) < 2:
        return
    having: dict[str, set[str]] = {}
    for one in addresses.all:
        if one.kind == "id" or one.broker not in known:
            continue
        is_listener = one.kind.startswith("listener ")
        kind = f"{one.kind} ({one.scheme})" if is_listener and one.scheme else one.kind
        having.setdefault(kind, set()).add(one.broker)
    for kind, brokers in sorted(having.items()):
        missing = tuple(name for name in addresses.brokers if name not in brokers)
        if not missing:
            continue
        key = _SETTING.get(kind, _key_of((kind,)))
        is_listener = kind.startswith(("listener ", "protocol "))
        yield Finding(
            code="listener_missing" if is_listener else "address_missing",
            title="Listener is missing on some brokers"
            if is_listener
            else "Address is missing on some brokers",
            measured=Quantity(len(missing), "brokers"),
            limit=Quantity(0),
            severity="warning",
            subject_kind="broker",
            subject=missing[0],
            servers=missing,
            keys=(key,),
            sentence=f"No {kind} address: {_some(missing)}; with one: "
            f"{pluralize(len(brokers), 'broker')} of {len(known)}.",
            consequence="Clients that use it get no address for the bundles there, and fail.",
            hint=f"Set {key} on every broker, and restart those without it.",
            fix=Fix(lines=(f"{key}=<as on the other brokers>",), restart=True),
            evidence={"kind": kind, "rows": list(missing), "having": len(brokers)},
            cost=_cost(context, missing),
        )


_SETTING: Final = {
    "http": "webServicePort",
    "https": "webServicePortTls",
    "broker": "brokerServicePort",
    "broker+ssl": "brokerServicePortTls",
}


def odd_ids(context: HealthContext) -> Iterator[Finding]:
    """A broker whose id names another port than its web addresses.

    Source:
        Pulsar ``PulsarService``: the id is the advertised address with the web service port, or
        with that for TLS where there is no other.
    """
    by_broker: dict[str, list[Address]] = {}
    for one in Addresses.of(context).all:
        if one.kind in ("id", "http", "https"):
            by_broker.setdefault(one.broker, []).append(one)
    for broker, found in by_broker.items():
        own, *webs = found
        same_host = [one for one in webs if one.host == own.host]
        if own.port is None or not same_host or any(one.port == own.port for one in same_host):
            continue
        yield Finding(
            code="broker_id_port",
            title="Broker id has another port",
            measured=Quantity(own.text),
            limit=Quantity(same_host[0].text),
            severity="warning",
            subject_kind="broker",
            subject=broker,
            servers=(broker,),
            keys=("webServicePort", "webServicePortTls"),
            sentence=f"The web service of {broker} is at "
            f"{_some([one.text for one in same_host])}, not at the port of its id.",
            consequence="Requests to the id (redirects, unloads, owned namespaces) fail.",
            hint="Restart the broker with the port that it registers, or remove the registration "
            "that another process left.",
            evidence={"rows": [one.text for one in same_host]},
        )


def leader_by_url(context: HealthContext) -> Iterator[Finding]:
    """A leader that registered a web address which is no broker's id, though a broker has it.

    Source:
        Pulsar issue 21897: releases that write no ``brokerId`` name the leader by the web address
        of its internal listener, and look for that among ids made of the advertised address.
    """
    broker = broker_at(context, context.snapshot.manifest.leader)
    leader = context.snapshot.manifest.leader
    if broker is None or leader is None:
        return
    brokers = context.snapshot.brokers.num_rows
    yield Finding(
        code="leader_named_by_url",
        title="Leader is not found by its address",
        measured=Quantity(leader),
        limit=Quantity(broker),
        severity="warning",
        subject_kind="broker",
        subject=broker,
        servers=(broker,),
        keys=(ADVERTISED, LISTENERS, "internalListenerName"),
        sentence=f"The leader is recorded as {leader}, the web address of {broker}; none "
        f"of the {pluralize(brokers, 'broker')} has that id.",
        consequence="The others treat the leader as inactive, and each broker places bundles "
        "independently.",
        hint=f"Set the host of the internal listener to {ADVERTISED} on each broker, "
        "or upgrade to a release whose leader uses its broker id.",
        evidence={"leader": leader, "broker": broker},
    )


def broker_at(context: HealthContext, leader: str | None) -> str | None:
    """Return the broker whose web address identifies the leader, or ``None``."""
    if leader is None or leader in context.measures.brokers:
        return None
    named = Address.of("", "id", leader.rstrip("/"))
    return next(
        (
            one.broker
            for one in Addresses.of(context).all
            if one.kind in ("http", "https") and (one.host, one.port) == (named.host, named.port)
        ),
        None,
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _cost(context: HealthContext, brokers: tuple[str, ...]) -> Cost:
    """Return the load of these brokers, by their reports."""
    table = context.snapshot.brokers
    named = pc.is_in(table["broker"], pa.array(brokers, pa.string()))
    own = table.filter(named)
    counts = context.measures.bundle_count.values[np.asarray(named)]
    topics, producers, consumers = (
        int(pc.sum(own[name]).as_py() or 0)
        for name in ("topic_count", "producer_count", "consumer_count")
    )
    return Cost(bundles=int(np.nansum(counts)), topics=topics, connections=producers + consumers)
