"""Looking at one bundle, right now: is it there, who owns it, may the destination take it.

Under the modular load manager the truth is the ownership znode, read after a ``sync``; its
creation transaction distinguishes one ownership from the next, even by the same broker. Under the
extensible one, and where no ZooKeeper is configured, the brokers themselves report what they
own: the last owner first, then the destination, then all others side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import msgspec

from connectors.pulsar.acting.addresses import Addresses
from connectors.pulsar.admin.capture import ADMIN
from connectors.pulsar.admin.client import AdminClient, quoted
from connectors.transport.deadline import Pool
from connectors.zookeeper.session import Node, ZooKeeperSession
from core.errors import InputError, NotFoundError, ProtocolError, RemoteError
from core.ids import FULL_UPPER, namespace_of, parse_range
from core.pulsar.snapshot.znodes import Readings
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.decode import decode_record
from core.pulsar.snapshot.znodes.namespaces import bundle_names, decode_spaces
from core.pulsar.snapshot.znodes.records import Ownership
from core.pulsar.steps.base import BundleStep
from core.snapshot.problems import ProblemLog

_MAX_NAMED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleState:
    """Observed state of a bundle at one moment.

    Attributes:
        exists: It is one of its namespace's bundles.
        parts: Bundles that cover its range instead; empty when it exists or its namespace does not.
        holder: Broker id of the owner; ``None`` if it is unassigned.
        token: Changes with every change of hands; ``None`` if the cluster shows no such thing.
        is_destination_there: Whether the step's destination is a live broker; also when it has
            none.
        is_owner_there: Whether the step's owner still is a live broker.
    """

    exists: bool
    parts: tuple[str, ...] = ()
    holder: str | None = None
    token: str | None = None
    is_destination_there: bool = True
    is_owner_there: bool = True

    def absence(self, bundle: str) -> str:
        """Return the sentence about a bundle that is not there."""
        if not self.parts:
            return f"Namespace {namespace_of(bundle)} no longer exists, nor does {bundle}."
        named = ", ".join(self.parts[:_MAX_NAMED])
        more = f" and {len(self.parts) - _MAX_NAMED} more" if self.parts[_MAX_NAMED:] else ""
        if self.is_split(bundle):
            return f"{bundle} was split into {named}{more}."
        return f"Bundle {bundle} does not exist; its range is in {named}{more}."

    def is_split(self, bundle: str) -> bool:
        """Return whether the parts make up exactly the bundle's range."""
        bounds = {bound for part in self.parts for bound in _range(part)}
        lowest, highest = _range(bundle)
        return len(self.parts) > 1 and (min(bounds), max(bounds)) == (lowest, highest)


class BundleReader(Protocol):
    """Looks at bundles of one cluster."""

    def look(self, step: BundleStep) -> BundleState:
        """Return the state of a step's bundle.

        Raises:
            RemoteError: It cannot be seen.
        """
        ...


class OwnersAnswer:
    """Owner of a bundle, by the brokers' answers.

    Args:
        client: Sends the requests.
        addresses: Where the brokers are.
        cluster: Returns the cluster's own name, part of the path.
        fan_out: Max brokers contacted at once.
    """

    def __init__(
        self,
        client: AdminClient,
        addresses: Addresses,
        cluster: Callable[[], str],
        fan_out: int,
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._cluster = cluster
        self._fan_out = fan_out

    def find(self, bundle: str, *, likely: Iterable[str | None]) -> str | None:
        """Return the owner, ``None`` when every broker says that it is not the one.

        One that is not active any more is the owner only where no other one is: a broker that was
        frozen while it gave the bundle up may list it for ever.

        Raises:
            RemoteError: No broker owns it, and one that may own it did not answer.
        """
        first = [name for name in dict.fromkeys(likely) if name and self._addresses.find(name)]
        failures: list[RemoteError] = []
        closing: list[str] = []
        for broker in first:
            if self._owns(broker, bundle, failures, closing):
                return broker
        others = [name for name in self._addresses.brokers() if name not in first]
        if others:
            with Pool(min(self._fan_out, len(others))) as pool:
                answers = pool.map(lambda name: self._owns(name, bundle, failures, closing), others)
                for broker, is_owner in zip(others, list(answers), strict=True):
                    if is_owner:
                        return broker
        if closing:
            return closing[0]
        if failures:
            raise failures[0]
        return None

    def still_serves(self, broker: str, bundle: str) -> bool:
        """Return whether a broker reports that it owns the bundle and keeps it.

        A broker that is closing a bundle still lists it, as one that is not active any more.

        Raises:
            RemoteError: It does not answer.
        """
        return _is_active(self._owned(broker).get(bundle))

    def _owns(
        self, broker: str, bundle: str, failures: list[RemoteError], closing: list[str]
    ) -> bool:
        try:
            owned = self._owned(broker)
        except RemoteError as exc:
            failures.append(exc)
            return False
        is_active = _is_active(owned.get(bundle))
        if bundle in owned and not is_active:
            closing.append(broker)
        return is_active

    def _owned(self, broker: str) -> dict[str, object]:
        url = self._addresses.find(broker)
        path = f"{ADMIN}/brokers{quoted(self._cluster(), broker)}/ownedNamespaces"
        if url is None:
            raise ProtocolError(
                f"{broker} has no web address that may be contacted.",
                endpoint=broker,
                operation=f"GET {path}",
                outcome="not_sent",
                hint="Is it a live broker, and do admin_urls allow http?",
            )
        return self._client.get(url, path, dict[str, object])


def _is_active(owned: object) -> bool:
    return isinstance(owned, dict) and owned.get("is_active", True) is True


class ZnodeBundleReader:
    """Looks by ZooKeeper; owners come from the brokers where ZooKeeper does not report them.

    Args:
        session: Reads.
        addresses: Which broker an address belongs to.
        owners: Reads them from the brokers; ``None`` to use the ownership znodes.
    """

    def __init__(
        self, session: ZooKeeperSession, addresses: Addresses, owners: OwnersAnswer | None
    ) -> None:
        self._session = session
        self._addresses = addresses
        self._owns = owners

    def look(self, step: BundleStep) -> BundleState:
        """Return the state of a step's bundle."""
        namespace = namespace_of(step.bundle)
        destination = step.destination or step.owner
        owner, local, whole, target, source = self._session.read(
            f"{roots.OWNERSHIP}/{step.bundle}",
            f"{roots.LOCAL_POLICIES}/{namespace}",
            f"{roots.POLICIES}/{namespace}",
            f"{roots.BROKERS}/{destination}",
            f"{roots.BROKERS}/{step.owner}",
        )
        bounds = _boundaries(namespace, local=local, whole=whole)
        exists, parts = _covered(step.bundle, namespace, bounds)
        if self._owns is not None:
            likely = (step.owner, step.destination)
            holder = self._owns.find(step.bundle, likely=likely) if exists else None
        else:
            holder = None if owner is None else self._holder(step.bundle, owner)
        return BundleState(
            exists=exists,
            parts=parts,
            holder=holder,
            token=str(owner.created_id) if owner is not None and self._owns is None else None,
            is_destination_there=step.destination is None or target is not None,
            is_owner_there=source is not None,
        )

    def _holder(self, bundle: str, node: Node) -> str:
        place = f"{roots.OWNERSHIP}/{bundle}"
        record = decode_record(Ownership, node.value, place, ProblemLog())
        found = None if record is None else self._addresses.owner(record)
        if found is None:
            raise ProtocolError(
                f"{place} does not report which broker owns the bundle.",
                endpoint=self._session.endpoint,
                operation=f"read {place}",
                outcome="refused",
                hint="Check that znode manually.",
            )
        return found


class AdminBundleReader:
    """Looks by the brokers' REST alone.

    Args:
        client: Sends the requests.
        addresses: Where the brokers are.
        owners: Reads owners.
        bases: Addresses that serve any request, in order.
    """

    def __init__(
        self,
        client: AdminClient,
        addresses: Addresses,
        owners: OwnersAnswer,
        bases: Callable[[], Iterable[str]],
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._owns = owners
        self._bases = bases

    def look(self, step: BundleStep) -> BundleState:
        """Return the state of a step's bundle."""
        namespace = namespace_of(step.bundle)
        live = msgspec.json.decode(self._body(f"{ADMIN}/brokers"), type=list[str])
        self._addresses.learn(live)
        readings = Readings()
        try:
            raw = self._body(f"{ADMIN}/namespaces{quoted(*namespace.split('/'))}/bundles")
        except NotFoundError:
            return BundleState(exists=False)
        readings.boundaries = {namespace: raw}
        bounds = decode_spaces(readings, ProblemLog()).boundaries.get(namespace)
        exists, parts = _covered(step.bundle, namespace, bounds)
        likely = (step.owner, step.destination)
        return BundleState(
            exists=exists,
            parts=parts,
            holder=self._owns.find(step.bundle, likely=likely) if exists else None,
            is_destination_there=step.destination is None or step.destination in live,
            is_owner_there=step.owner in live,
        )

    def _body(self, path: str) -> bytes:
        """Return the first answer of those that may be contacted."""
        failure: RemoteError | None = None
        for base in self._bases():
            try:
                return self._client.request("GET", base, path).body
            except NotFoundError:
                raise
            except RemoteError as exc:
                failure = failure or exc
        raise failure or InputError("No admin address is configured.", hint="Add admin_urls.")


def _boundaries(namespace: str, *, local: Node | None, whole: Node | None) -> list[int] | None:
    """Return the namespace's boundaries as of now; local policies win, as in the brokers."""
    readings = Readings()
    if local is not None:
        readings.local_policies = {namespace: local.value}
    if whole is not None:
        readings.policies = {namespace: whole.value}
    return decode_spaces(readings, ProblemLog()).boundaries.get(namespace)


def _covered(bundle: str, namespace: str, bounds: list[int] | None) -> tuple[bool, tuple[str, ...]]:
    """Return whether it is a bundle, and else the bundles that cover its range."""
    lower, upper = _range(bundle)
    if bounds is None:
        return False, ()
    names = bundle_names(namespace, bounds)
    over = tuple(
        name
        for name, (low, high) in zip(names, pairwise(bounds), strict=True)
        if low < upper and high > lower
    )
    return (True, ()) if over == (bundle,) else (False, over)


def _range(bundle: str) -> tuple[int, int]:
    try:
        return parse_range(bundle.rpartition("/")[2])
    except InputError:
        return 0, FULL_UPPER
