"""Configuration section of identity: how people sign in, and their roles."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator, model_validator

from connectors.config.credentials import Strict
from core.access import Access, Grant, Role, SignIn, is_address, is_subject

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class GrantConfig(Strict):
    """A role for people on clusters; see :class:`core.access.Grant`.

    Attributes:
        role: ``viewer`` looks, ``operator`` acts on the load and controls runs, ``admin`` also
            changes lasting settings and policies.
        people: Names as they sign in, or ``*``: everybody who is signed in. With ``oidc``: e-mail
            addresses that the provider verified, or ``ISSUER#SUBJECT``.
        groups: Names of groups: of the user file, the proxy or the provider.
        clusters: Names or patterns such as ``prod-*``.
        scope: Tenants (``acme``), namespaces (``acme/orders``, ``acme/*``) and Pegasus tables that
            the role is limited to; empty: the whole cluster.
    """

    role: Role
    people: list[str] = Field(default_factory=list)
    groups: list[str] = Field(default_factory=list)
    clusters: list[str] = Field(default=["*"], min_length=1)
    scope: list[str] = Field(default_factory=list)

    @field_validator("scope")
    @classmethod
    def _names(cls, scope: list[str]) -> list[str]:
        for one in scope:
            if not one.strip() or one != one.strip() or one.count("/") > 1 or "://" in one:
                raise ValueError(
                    "each entry of scope must have the form tenant, tenant/namespace or table"
                )
        return scope

    @model_validator(mode="after")
    def _for_somebody(self) -> GrantConfig:
        if not self.people and not self.groups:
            raise ValueError("a grant needs people or groups")
        if self.scope and self.role == "viewer":
            raise ValueError("scope limits operator and admin: a viewer sees whole clusters")
        return self


class ProxyConfig(Strict):
    """A proxy in front of the pages; with ``sign_in = "proxy"`` it names people in headers.

    Attributes:
        addresses: From which its requests come, as addresses or networks (``10.0.0.0/24``). With
            ``proxy`` requests from elsewhere are refused; with ``users`` they tell visitors apart.
        user_header: Has the person's name.
        groups_header: Has the person's groups, separated by commas.
    """

    addresses: list[str] = Field(default_factory=list)
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"

    @field_validator("addresses")
    @classmethod
    def _networks(cls, addresses: list[str]) -> list[str]:
        for one in addresses:
            try:
                ip_network(one)
            except ValueError as exc:
                text = "each entry of addresses must have the form 10.0.0.7 or 10.0.0.0/24"
                raise ValueError(text) from exc
        return addresses

    def trusts(self, address: str) -> bool:
        """Return whether requests from an address are the proxy's."""
        found = _parsed(address)
        return found is not None and any(found in ip_network(one) for one in self.addresses)

    def visitor(self, sender: str, forwarded: str) -> str:
        """Return under which address a request is counted.

        Args:
            sender: From which it came.
            forwarded: Its ``X-Forwarded-For``. It counts if the sender is the proxy, and of it the
                last address, which the proxy added itself; the others are the visitor's own.
        Returns:
            Of IPv6 the network (/64), of which a visitor has every address.
        """
        last = forwarded.rpartition(",")[2].strip()
        found = (_parsed(last) if self.trusts(sender) else None) or _parsed(sender)
        if isinstance(found, IPv6Address):
            return str(IPv6Network((found, 64), strict=False))
        return sender if found is None else str(found)


class AccessConfig(Strict):
    """Sign-in and roles of Trimtab.

    Attributes:
        sign_in: ``none``: nobody signs in; the pages are served on loopback only. ``users``:
            passwords of the user file. ``proxy``: see ``proxy``. ``oidc``: an OpenID provider,
            configured in Streamlit's ``secrets.toml``.
        grants: Roles; without one a person sees no cluster.
        users_file: Users, groups and API tokens; by default ``users.json`` in the state directory.
        key_file: The installation's key, which signs requests and plans; by default made for the
            operating system's user. Machines that share a journal need the same one.
        session_hours: How long a person stays signed in.
        proxy: In front of the pages.
        groups_claim: For ``oidc``: the claim that lists a person's groups; ``a.b`` is also ``b``
            inside of ``a``.
    """

    sign_in: SignIn = "none"
    grants: list[GrantConfig] = Field(default_factory=list)
    users_file: Path | None = None
    key_file: Path | None = None
    session_hours: float = Field(default=12.0, gt=0, le=720)
    proxy: ProxyConfig = ProxyConfig()
    groups_claim: str = "groups"

    @model_validator(mode="after")
    def _whole(self) -> AccessConfig:
        if self.sign_in == "none" and self.grants:
            raise ValueError(
                "grants need sign-in; without sign-in every user has all rights: set "
                'sign_in to "users", "proxy" or "oidc"'
            )
        if self.sign_in == "proxy" and not self.proxy.addresses:
            raise ValueError('sign_in = "proxy" needs the proxy\'s addresses under [access.proxy]')
        for name in (name for one in self.grants for name in one.people):
            if self.sign_in == "oidc" and not (name == "*" or is_address(name) or is_subject(name)):
                raise ValueError(
                    f'with sign_in = "oidc" a grant cannot name {name!r}: use the verified '
                    "e-mail address, or issuer and subject as "
                    f'"https://login.example.com#{name}"; give API tokens a group'
                )
        return self

    def rules(self) -> Access:
        """Return the roles in the form that the rules take."""
        return Access(
            sign_in=self.sign_in,
            grants=tuple(
                Grant(
                    role=one.role,
                    people=tuple(one.people),
                    groups=tuple(one.groups),
                    clusters=tuple(one.clusters),
                    scope=tuple(one.scope),
                )
                for one in self.grants
            ),
        )


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, or ``None`` if invalid.

    Of IPv4 also where a server for both protocols writes it as IPv6, and without the port of the
    visitor, another one for each connection, that some proxies add.
    """
    host = text.removeprefix("[").partition("]")[0].partition("%")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return address in _LOOPBACK or ip_address(address).is_loopback
    except ValueError:
        return False
