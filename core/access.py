"""Who may do what: people, their roles on clusters, and the rule that compares the two."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from core.errors import ForbiddenError

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")
"""Each may do what those before it may: look; act on the load; change lasting settings."""

SignIn = Literal["none", "users", "proxy", "oidc"]
Source = Literal["local", "users", "proxy", "oidc", "token"]

_SOURCES: Final[dict[SignIn, frozenset[Source]]] = {
    "none": frozenset({"local"}),
    "users": frozenset({"users", "token"}),
    "proxy": frozenset({"proxy", "token"}),
    "oidc": frozenset({"oidc", "token"}),
}
"""By the way people sign in: where a verified identity may come from."""

_ADDRESS: Final = re.compile(r"[^\s@:#]+@[^\s@:#]+\Z")
_SUBJECT: Final = re.compile(r"https?://[^\s#]+#\S+\Z")
"""An address has no colon and a subject begins with its issuer's: no text is both."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A person, and how it was verified who that is.

    Attributes:
        name: As the journal names the person. Of an OpenID provider: the e-mail address that it
            verified, which is a label, else ``subject``.
        groups: That the person belongs to.
        source: ``local``: the operating system's user, where nobody signs in; ``users``: a password
            of the user file; ``proxy``: headers of a trusted proxy; ``oidc``: an OpenID provider;
            ``token``: an API token.
        subject: ``ISSUER#SUBJECT``: whom an OpenID provider identifies, whatever address that
            person has; empty: no provider did.
    """

    name: str
    groups: tuple[str, ...] = ()
    source: Source = "local"
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role for people on clusters.

    Attributes:
        role: What they may do.
        people: Names, subjects of an OpenID provider, or ``*``: everybody who is signed in.
        groups: Names of groups.
        clusters: Patterns of cluster names, for example ``prod-*``.
        scope: Tenants (``acme``), namespaces (``acme/orders``, ``acme/*``) and Pegasus tables that
            the role is limited to; empty: the whole cluster. Beyond it the role is ``viewer``.
    """

    role: Role
    people: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ("*",)
    scope: tuple[str, ...] = ()

    def fits(self, identity: Identity, cluster: str | None) -> bool:
        """Return whether it applies to a person on a cluster; ``None`` matches any cluster."""
        is_theirs = (
            "*" in self.people
            or identity.name in self.people
            or (bool(identity.subject) and identity.subject in self.people)
            or not set(self.groups).isdisjoint(identity.groups)
        )
        return is_theirs and (
            cluster is None or any(fnmatchcase(cluster, one) for one in self.clusters)
        )

    def role_in(self, name: str | None) -> Role:
        """Return the role in a namespace or on a table; ``None`` for the whole cluster."""
        is_covered = not self.scope or (
            name is not None and any(_is_within(name, one) for one in self.scope)
        )
        return self.role if is_covered else "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Sign-in mode and grants.

    Attributes:
        sign_in: ``none``: everybody who reaches Trimtab is its own user and may do everything.
        grants: Without a grant a signed-in person may do nothing, and sees no cluster.
    """

    sign_in: SignIn = "none"
    grants: tuple[Grant, ...] = ()

    @property
    def has_scopes(self) -> bool:
        """Whether a role is limited to namespaces or tables."""
        return any(grant.scope for grant in self.grants)

    def role_of(
        self, identity: Identity, cluster: str | None = None, name: str | None = None
    ) -> Role | None:
        """Return the highest role of a person on a cluster, ``None`` if no role.

        Args:
            identity: The person.
            cluster: Its name; ``None`` for the cluster with the highest role.
            name: A namespace or table; ``None`` for the whole cluster, for which a role that is
                limited to a scope counts as ``viewer``.
        """
        if identity.source not in _SOURCES[self.sign_in]:
            return None
        if identity.source == "oidc" and not identity.subject:
            return None  # of an earlier version, whose names may be anybody's
        if self.sign_in == "none":
            return "admin"
        roles = {grant.role_in(name) for grant in self.grants if grant.fits(identity, cluster)}
        return max(roles, key=ROLES.index, default=None)

    def limited_roles(self, identity: Identity, cluster: str) -> dict[Role, list[str]]:
        """Return the roles above that of the whole cluster, each with its scope.

        Args:
            identity: The person.
            cluster: Its name.
        """
        held = self.role_of(identity, cluster)
        if held is None or self.sign_in == "none":
            return {}
        found: dict[Role, list[str]] = {}
        for grant in self.grants:
            is_higher = ROLES.index(grant.role) > ROLES.index(held)
            if grant.scope and is_higher and grant.fits(identity, cluster):
                found.setdefault(grant.role, []).extend(grant.scope)
        return {role: sorted(set(found[role])) for role in ROLES if role in found}

    def may(
        self, identity: Identity, role: Role, cluster: str | None = None, name: str | None = None
    ) -> bool:
        """Return whether a person has at least a role on a cluster, or on any.

        Args:
            identity: The person.
            role: That is needed.
            cluster: Its name; ``None`` for any.
            name: See :meth:`role_of`.
        """
        held = self.role_of(identity, cluster, name)
        return held is not None and ROLES.index(held) >= ROLES.index(role)

    def refusal(
        self,
        identity: Identity,
        role: Role,
        cluster: str | None,
        action: str,
        name: str | None = None,
    ) -> tuple[str, str] | None:
        """Return the refusal and its hint, or ``None`` if the person is allowed.

        Args:
            identity: The person.
            role: That the action needs.
            cluster: Where; ``None`` if it belongs to no cluster in particular.
            action: What is refused, for example ``apply plans``.
            name: The namespace or table that the action changes; ``None`` for the whole cluster.
        """
        if self.may(identity, role, cluster, name):
            return None
        place = f" on {cluster}" if cluster else ""
        if identity.source not in _SOURCES[self.sign_in]:
            return (
                f"{identity.name} is not signed in and cannot {action}{place}.",
                "Sign in; for the command line set TRIMTAB_TOKEN to a token of `trimtab tokens`.",
            )
        held = self.role_of(identity, cluster, name)
        is_unverified = identity.source == "oidc" and identity.name == identity.subject
        at = "" if name is None else f" for {name}"
        limited = self.limited_roles(identity, cluster) if cluster and name is None else {}
        only = f", {describe_scopes(limited)} only" if limited else ""
        everywhere = " for the whole cluster" if limited else ""
        whose = f"{identity.name} has {held or 'no'} role{place}{at}{only}"
        return (
            f"{whose}; {role}{everywhere} is needed to {action}.",
            "Ask an admin: roles are under [[access.grants]] in trimtab.toml."
            + (_NO_ADDRESS if is_unverified else ""),
        )

    def check(self, identity: Identity, role: Role, cluster: str | None, action: str) -> None:
        """Check that a person may do something; see :meth:`refusal`.

        Raises:
            ForbiddenError: The person may not.
        """
        refused = self.refusal(identity, role, cluster, action)
        if refused is not None:
            raise ForbiddenError(refused[0], hint=refused[1])

    def visible(self, identity: Identity, clusters: Sequence[str]) -> list[str]:
        """Return the clusters visible to a person, in order."""
        return [name for name in clusters if self.may(identity, "viewer", name)]


_NO_ADDRESS: Final = (
    " A grant to an e-mail address does not count: the provider did not mark yours as verified "
    "(claim email_verified)."
)


def _is_within(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a namespace or table, or the tenant of a namespace."""
    tenant, slash, _ = name.partition("/")
    is_tenant = bool(slash) and "/" not in pattern and fnmatchcase(tenant, pattern)
    return is_tenant or fnmatchcase(name, pattern)


def describe_scopes(limited: Mapping[Role, Sequence[str]]) -> str:
    """Return ``operator for acme, beta/*``, for roles of :meth:`Access.limited_roles`."""
    return "; ".join(f"{role} for {', '.join(scope)}" for role, scope in limited.items())


def is_same_person(one: Identity, other: Identity) -> bool:
    """Return whether two identities may belong to one person.

    They are if a provider has one subject for both, whatever the addresses, or if the names differ
    in spelling only: many providers take a name in any case.
    """
    is_one_subject = bool(one.subject) and one.subject == other.subject
    return is_one_subject or _folded(one.name) == _folded(other.name)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def subject_of(issuer: str, subject: str) -> str:
    """Return ``ISSUER#SUBJECT``; an issuer has no ``#``, so that only one pair reads like that."""
    return f"{issuer}#{subject}"


def is_subject(name: str) -> bool:
    """Return whether a name has the form ``ISSUER#SUBJECT`` of :func:`subject_of`."""
    return _SUBJECT.match(name) is not None


def is_address(name: str) -> bool:
    """Return whether a name has the form of an e-mail address, and is not a subject."""
    return _ADDRESS.match(name) is not None


def highest(roles: Iterable[Role]) -> Role:
    """Return the highest of some roles; ``operator`` if there are none."""
    return max(roles, key=ROLES.index, default="operator")
