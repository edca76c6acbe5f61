"""Which addresses are queried at all, and which of them get credentials.

Brokers register their own addresses, so whoever can write a znode chooses them. Credentials go to
what the configuration names only, and nothing goes to link-local addresses, where clouds serve
the credentials of this machine.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_PORTS: Final = {"http": 80, "https": 443}
_BROKER_PORTS: Final = {"http": 8080, "https": 8443}
_ENTRY: Final = re.compile(r"(\*\.)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?\Z")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "fd00:ec2::254",  # AWS
        "fd20:ce::254",  # Google Cloud
        "168.63.129.16",  # Azure
        "100.100.100.200",  # Alibaba Cloud
        "192.0.0.192",  # Oracle Cloud
    )
)
"""Metadata addresses of clouds that are not link-local; the manuals of their owners name them."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_SERVICE_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}
_MIN_GROUP: Final = 3


def origin_of(url: str) -> Origin | None:
    """Return scheme, host and port, or ``None`` when it is no web address."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname, port


def address_fault(url: str) -> str:
    """Return the reason a registered address is not queried, or ""."""
    try:
        parts = urlsplit(url)
        origin = origin_of(url)
    except ValueError:
        return "it is not a web address"
    if _UNSAFE.search(url):
        return "it has spaces or control characters"
    if "@" in parts.netloc:
        return "it has a user name"
    if origin is None:
        return "it is not http(s)://host:port"
    if parts.path not in ("", "/") or "?" in url or "#" in url:
        return "it has a path or a query"
    return host_fault(origin[1])


def host_fault(host: str) -> str:
    """Return the reason a host or IP address is not queried, or ""."""
    try:
        address: Any = ipaddress.ip_address(host.partition("%")[0].strip("[]"))
    except ValueError:
        return ""
    address = _embedded_ipv4(address) or address
    if address.is_link_local or address in _METADATA:
        return (
            f"{address} is a link-local or metadata address, where clouds serve machine credentials"
        )
    return ""


def _embedded_ipv4(address: Any) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to: mapped, 6to4 or NAT64."""
    if address.version == 4:
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    found: ipaddress.IPv4Address | None = address.ipv4_mapped or address.sixtofour
    return found


@dataclass(frozen=True, slots=True)
class HostPattern:
    """An entry of ``credential_hosts``.

    Attributes:
        host: Lower case; with ``is_suffix`` what follows the first part of the name.
        is_suffix: Whether it reads ``*.domain``.
        network: An address range instead of a name.
        port: ``None`` for the ports of ``admin_urls``.
    """

    host: str
    is_suffix: bool = False
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Read ``host``, ``host:port``, ``*.domain``, ``*.domain:port`` or ``10.0.0.0/24``.

        Raises:
            ValueError: It is none of these.
        """
        if "/" in text:
            return cls("", network=ipaddress.ip_network(text))
        match = _ENTRY.match(text)
        if match is None:
            raise ValueError(f"{text!r} is not a host")
        host = match[2].lower().strip("[]").rstrip(".")
        port = int(match[3][1:]) if match[3] else None
        return cls(host, is_suffix=match[1] is not None, port=port)

    def matches(self, host: str) -> bool:
        """Return whether it matches a host."""
        host = host.lower().rstrip(".")
        if self.network is not None:
            try:
                return ipaddress.ip_address(host) in self.network
            except ValueError:
                return False
        return host.endswith(f".{self.host}") if self.is_suffix else host == self.host


class CredentialHosts:
    """Hosts that may receive a cluster's credentials.

    Args:
        admin_urls: Allowed exactly.
        credential_hosts: Allowed with the schemes and, where they name none, the ports of
            ``admin_urls``.
    """

    def __init__(self, admin_urls: Iterable[str], credential_hosts: Iterable[str]) -> None:
        self._exact = {origin for url in admin_urls if (origin := origin_of(url))}
        self._patterns = [HostPattern.parse(text) for text in credential_hosts]

    def allows(self, origin: Origin) -> bool:
        """Return whether a web address receives them."""
        scheme, host, port = origin
        if origin in self._exact:
            return True
        if self._exact and scheme not in {exact[0] for exact in self._exact}:
            return False
        own = {exact[2] for exact in self._exact if exact[0] == scheme}
        ports = own or {_BROKER_PORTS[scheme]}
        return any(
            one.matches(host) and (port in ports if one.port is None else port == one.port)
            for one in self._patterns
        )

    def allows_service(self, scheme: str, host: str, port: int | None) -> bool:
        """Return whether a service address receives them.

        The host is one of ``admin_urls`` or ``credential_hosts``; the port is Pulsar's own for the
        scheme, or one that an entry for that host names.

        Args:
            scheme: ``pulsar`` or ``pulsar+ssl``.
            host: Without its port.
            port: ``None`` for Pulsar's own.
        """
        host = host.lower().rstrip(".")
        matching = [one for one in self._patterns if one.matches(host)]
        if not matching and host not in {exact[1] for exact in self._exact}:
            return False
        ports = {_SERVICE_PORTS[scheme], *(one.port for one in matching)}
        return port is None or port in ports


def suggested_hosts(urls: Iterable[str]) -> list[str]:
    """Return entries of ``credential_hosts`` that would cover addresses; ranges for many."""
    origins = [origin for url in urls if (origin := origin_of(url))]
    groups = Counter(_group(host) for _, host, _ in origins)
    found = {
        group if (group := _group(host)) and groups[group] >= _MIN_GROUP else _netloc(host, port)
        for _, host, port in origins
    }
    return sorted(found)


def _group(host: str) -> str:
    """Return the range or domain that a host is in; empty when there is none."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        domain = host.partition(".")[2]
        return f"*.{domain}" if "." in domain else ""
    bits = 24 if address.version == 4 else 64
    return "" if address.is_loopback else str(ipaddress.ip_network((address, bits), strict=False))


def _netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
