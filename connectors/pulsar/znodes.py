"""What to read of a cluster's ZooKeeper, in which order, at which price.

Five rounds of bulk reads; each reads only what the one before named:

1. the lists of brokers, tenants and clusters, the leader, the dynamic settings;
2. broker reports and averages, namespaces of the tenants, policies of the clusters;
3. policies of the namespaces, and the state of each namespace's ownership folder;
4. the owned bundles of those folders that changed since the last capture;
5. their owners, and the averages of all bundles. No bundle is listed: names follow from the
   boundaries, so a bundle costs one read, and an unchanged folder of owners costs none.

The ephemeral of a bundle is the truth about its owner (a report is up to a minute old). An owner
can change only by deleting and creating that ephemeral, which moves the ``pzxid`` of its folder;
that its owner disabled it does not, so that every folder is read again after :data:`REREAD_S`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from connectors.zookeeper.client import (
    BROKE_CONNECTION,
    OVER_BUDGET,
    TOO_LARGE,
    UNREAD,
    ZooKeeperReader,
)
from connectors.zookeeper.multi_read import (
    GET_CHILDREN,
    GET_DATA,
    NO_AUTH,
    NO_NODE,
    ReadAnswer,
    ReadOperation,
)
from core.pulsar.snapshot.znodes import Readings
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.namespaces import bundle_names, decode_spaces
from core.pulsar.snapshot.znodes.readings import ZnodeOwnership
from core.snapshot.problems import ProblemLog

_REPORT_BYTES: Final = 24_000
_POLICY_BYTES: Final = 1_500
_QUOTA_DEPTH: Final = 3
_ISOLATION: Final = "namespaceIsolationPolicies"
_EMPTY: Final = b" "
_LISTS: Final = (
    roots.BROKERS,
    roots.CLUSTERS,
    roots.POLICIES,
    roots.LOCAL_POLICIES,
    roots.OWNERSHIP,
    roots.RESOURCE_QUOTA,
    roots.RESOURCE_GROUPS,
)


_REFUSED: Final = {
    NO_AUTH: (
        "auth",
        "ZooKeeper does not allow Trimtab to read it.",
        "It is unknown; set zookeeper_auth, or grant read access.",
    ),
    BROKE_CONNECTION: (
        "protocol",
        "Reading it failed repeatedly with a lost ZooKeeper connection.",
        "It is unknown; it may be larger than jute.maxbuffer or read_limits.zookeeper_mib allows.",
    ),
    TOO_LARGE: (
        "protocol",
        "It would take more memory than read_limits.zookeeper_mib allows.",
        "It is unknown; check its content.",
    ),
}
"""Code of the problem, what happened and what it means, by the error of a znode."""


REREAD_S: Final = 60.0
"""An ownership value is at most so old: about what a normal unload takes at most."""


@dataclass(slots=True)
class ClusterPolicies:
    """Policies of every cluster that ZooKeeper knows; which one is its own is decided later."""

    names: list[str] = field(default_factory=list)
    isolation: dict[str, bytes] = field(default_factory=dict)
    domains: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def finish(self, readings: Readings, own: str | None, problems: ProblemLog) -> None:
        """Put the policies of the cluster itself into ``readings``."""
        own = own or roots.own_cluster(self.names)
        if own is None and len(self.names) > 1:
            problems.add(
                "inconsistent",
                roots.CLUSTERS,
                f"It names several clusters ({', '.join(sorted(self.names)[:5])}), and no source "
                "reports which one this is.",
                done="Set pulsar_cluster or an admin URL; its policies are unknown.",
            )
        readings.pulsar_cluster = own
        readings.isolation = self.isolation.get(own or "")
        readings.failure_domains = self.domains.get(own or "", {})


@dataclass(slots=True)
class _Folder:
    """Owners in one namespace, as of a change of its folder."""

    change_id: int
    owners: dict[str, bytes]
    held: dict[str, ZnodeOwnership]
    read_at: float  # of the monotonic clock, s

    def is_due(self, change_id: int) -> bool:
        """Return whether to read it again: disabling a znode does not change its folder."""
        is_old = time.monotonic() - self.read_at >= REREAD_S
        return self.change_id != change_id or is_old or any(map(_is_disabled, self.owners.values()))


def _is_disabled(value: bytes) -> bool:
    return b'"disabled":true' in value.replace(b" ", b"")


class ZooKeeperCapture:
    """Reads the znodes of a cluster; keeps owners of unchanged namespaces for :data:`REREAD_S`."""

    def __init__(self, reader: ZooKeeperReader) -> None:
        self._reader = reader
        self._folders: dict[str, _Folder] = {}
        self._problems = ProblemLog()
        self._gone: set[str] = set()
        self._unread = 0
        self._over_budget = 0

    def read(self, problems: ProblemLog) -> tuple[Readings, ClusterPolicies]:
        """Read everything; what could not be read is in ``problems``.

        The reader has begun. When it broke off, its ``failure`` says why and the rest is missing.
        """
        self._problems = problems
        self._unread = self._over_budget = 0
        self._gone = set()
        readings, policies = Readings(), ClusterPolicies()
        self._reader.watch_children(roots.BROKERS)
        lists = self._first_round(readings)
        spaces = self._second_round(readings, policies, lists)
        folders = self._third_round(readings, spaces)
        self._owners(readings, folders)
        self._averages(readings)
        self._close_books()
        return readings, policies

    # -- rounds -------------------------------------------------------------------------------

    def _first_round(self, readings: Readings) -> dict[str, list[str]]:
        reads = [ReadOperation(GET_CHILDREN, path) for path in _LISTS]
        reads += [ReadOperation(GET_DATA, path) for path in (*roots.LEADERS, roots.CONFIGURATION)]
        answers = dict(zip((read.path for read in reads), self._reader.read(reads), strict=True))
        for path, answer in answers.items():
            self._note(answer, path)
        for path in roots.LEADERS:
            if answers[path].value and readings.leader is None:
                readings.leader, readings.leader_place = answers[path].value, path
                readings.leader_held = _held({path: answers[path]})[path]
        if answers[roots.CONFIGURATION].error in (0, NO_NODE):
            readings.dynamic = answers[roots.CONFIGURATION].value or b"{}"
        if answers[roots.BROKERS].error == NO_NODE:
            self._problems.add(
                "missing",
                roots.BROKERS,
                "The znode does not exist; this is not the ZooKeeper of a Pulsar cluster.",
                done="Check the servers and the chroot; zookeeper accepts the brokers' "
                "metadataStoreUrl unchanged.",
                severity="error",
            )
        readings.owners_known = answers[roots.OWNERSHIP].error == 0
        return {path: sorted(answers[path].value or ()) for path in _LISTS}

    def _second_round(
        self, readings: Readings, policies: ClusterPolicies, lists: Mapping[str, list[str]]
    ) -> dict[str, list[str]]:
        brokers = lists[roots.BROKERS]
        origins: dict[str, ReadAnswer] = {}
        reports = self._data(roots.BROKERS, brokers, _REPORT_BYTES, listed=True, origins=origins)
        readings.brokers_held = _held(origins)
        readings.brokers = {
            name: reports.get(name, b"") for name in brokers if self._is_there(name)
        }
        averages: dict[str, ReadAnswer] = {}
        readings.broker_averages = self._data(roots.BROKER_AVERAGES, brokers, 500, origins=averages)
        readings.averages_written = {name: one.modified_at for name, one in averages.items()}
        policies.names = lists[roots.CLUSTERS]
        clusters = roots.CLUSTERS
        for name in policies.names:
            stored = self._data(f"{clusters}/{name}", [_ISOLATION], 4_000)
            if _ISOLATION in stored:
                policies.isolation[name] = stored[_ISOLATION]
        found = self._children(f"{clusters}/{name}/failureDomain" for name in policies.names)
        for path, domains in found.items():
            cluster = path.split("/")[3]
            policies.domains[cluster] = self._data(path, domains, 500, listed=True)
        self._quotas(readings, lists[roots.RESOURCE_QUOTA])
        groups = lists[roots.RESOURCE_GROUPS]
        readings.resource_groups = self._data(roots.RESOURCE_GROUPS, groups, 200, listed=True)
        spaces: dict[str, list[str]] = {}
        for root in (roots.POLICIES, roots.LOCAL_POLICIES, roots.OWNERSHIP):
            below = self._children(f"{root}/{tenant}" for tenant in lists[root])
            spaces[root] = [
                f"{path[len(root) + 1 :]}/{name}" for path, names in below.items() for name in names
            ]
            if root == roots.OWNERSHIP:
                readings.unread_owners |= {
                    tenant for tenant in lists[root] if f"{root}/{tenant}" not in below
                }
        return spaces

    def _third_round(
        self, readings: Readings, spaces: Mapping[str, list[str]]
    ) -> dict[str, ReadAnswer]:
        readings.local_policies = self._data(
            roots.LOCAL_POLICIES, spaces[roots.LOCAL_POLICIES], _POLICY_BYTES, listed=True
        )
        readings.policies = self._data(
            roots.POLICIES, spaces[roots.POLICIES], _POLICY_BYTES, listed=True
        )
        names = spaces[roots.OWNERSHIP]
        answers = self._reader.read(
            [ReadOperation(GET_DATA, f"{roots.OWNERSHIP}/{name}") for name in names],
            expected_bytes=1,
        )
        return dict(zip(names, answers, strict=True))

    def _owners(self, readings: Readings, folders: Mapping[str, ReadAnswer]) -> None:
        """Read the owners in every folder that changed, or is due; keep those of the others."""
        changed: list[str] = []
        for name, answer in folders.items():
            cached = self._folders.get(name)
            if answer.error == NO_NODE:
                self._folders.pop(name, None)
            elif answer.error:
                self._note(answer, f"{roots.OWNERSHIP}/{name}")
                readings.unread_owners.add(name)
            elif cached is None or cached.is_due(answer.child_change_id):
                changed.append(name)
            else:
                readings.ownership |= cached.owners
                readings.ownership_held |= cached.held
        self._folders = {name: self._folders[name] for name in folders if name in self._folders}
        listed = self._children((f"{roots.OWNERSHIP}/{name}" for name in changed), deep=True)
        for name in changed:
            if f"{roots.OWNERSHIP}/{name}" not in listed:
                readings.unread_owners.add(name)
        cut = len(roots.OWNERSHIP) + 1
        bundles = [
            f"{path[cut:]}/{child}" for path, children in listed.items() for child in children
        ]
        origins: dict[str, ReadAnswer] = {}
        values = self._data(
            roots.OWNERSHIP, bundles, 180, unread=readings.unread_owners, origins=origins
        )
        readings.ownership |= values
        held = _held(origins)
        readings.ownership_held |= held
        self._remember(folders, changed, values, held, readings.unread_owners)

    def _remember(
        self,
        folders: Mapping[str, ReadAnswer],
        changed: Iterable[str],
        values: Mapping[str, bytes],
        held: Mapping[str, ZnodeOwnership],
        unread: set[str],
    ) -> None:
        by_folder: dict[str, dict[str, bytes]] = {name: {} for name in changed}
        for bundle, raw in values.items():
            by_folder[bundle.rpartition("/")[0]][bundle] = raw
        damaged = {name.rpartition("/")[0] for name in unread} | unread
        for name, owners in by_folder.items():
            # the folder's state was read before its children: a change in between shows next time
            if name in damaged:
                self._folders.pop(name, None)
            else:
                self._folders[name] = _Folder(
                    folders[name].child_change_id,
                    owners,
                    {bundle: held[bundle] for bundle in owners},
                    time.monotonic(),
                )

    def _averages(self, readings: Readings) -> None:
        spaces = decode_spaces(readings, ProblemLog())
        # owned ones first: when the budget ends, it ends among unused ones
        names = dict.fromkeys(readings.ownership)
        for namespace, bounds in spaces.boundaries.items():
            names.update(dict.fromkeys(bundle_names(namespace, bounds)))
        origins: dict[str, ReadAnswer] = {}
        readings.bundle_data = self._data(roots.BUNDLE_DATA, list(names), 420, origins=origins)
        written = (answer.modified_at for answer in origins.values())
        readings.bundle_data_written = max(written, default=None)

    def _quotas(self, readings: Readings, names: list[str]) -> None:
        root = roots.RESOURCE_QUOTA
        folders = [name for name in names if name != "default"]
        readings.resource_quotas = self._data(root, [n for n in names if n == "default"], 200)
        for depth in range(1, _QUOTA_DEPTH):
            below = self._children(f"{root}/{name}" for name in folders)
            folders = [f"{path[len(root) + 1 :]}/{n}" for path, ns in below.items() for n in ns]
            if depth == _QUOTA_DEPTH - 1:
                readings.resource_quotas |= self._data(root, folders, 200)

    # -- one bulk read ------------------------------------------------------------------------

    def _data(
        self,
        root: str,
        names: list[str],
        expected_bytes: int,
        *,
        listed: bool = False,
        unread: set[str] | None = None,
        origins: dict[str, ReadAnswer] | None = None,
    ) -> dict[str, bytes]:
        """Return ``{name: value}`` of the znodes ``root/name`` that are there.

        Args:
            root: Folder.
            names: Below it.
            expected_bytes: Size of one value.
            listed: Whether they were listed just now, so that a missing one has vanished.
            unread: Gets the names that could not be read although they may be there.
            origins: Gets the answer for each that is there: its times and its session.
        """
        answers = self._reader.read(
            [ReadOperation(GET_DATA, f"{root}/{name}") for name in names],
            expected_bytes=expected_bytes,
        )
        values: dict[str, bytes] = {}
        for name, answer in zip(names, answers, strict=True):
            if answer.error:
                self._note(answer, f"{root}/{name}", listed=listed)
                if unread is not None and answer.error != NO_NODE:
                    unread.add(name)
            else:
                values[name] = (
                    answer.value or _EMPTY
                )  # there, but empty: no JSON, and named as such
                if origins is not None:
                    origins[name] = answer
        return values

    def _children(self, paths: Iterable[str], *, deep: bool = False) -> dict[str, list[str]]:
        """Return ``{path: names of its children}`` of those that could be listed."""
        listed = list(paths)
        answers = self._reader.read(
            [ReadOperation(GET_CHILDREN, path) for path in listed],
            expected_bytes=3_000 if deep else 1_000,
        )
        found: dict[str, list[str]] = {}
        for path, answer in zip(listed, answers, strict=True):
            if answer.error:
                self._note(answer, path)
            else:
                found[path] = sorted(answer.value)
        return found

    # -- what could not be read ---------------------------------------------------------------

    def _note(self, answer: ReadAnswer, path: str, *, listed: bool = False) -> None:
        error = answer.error
        if error == UNREAD:
            self._unread += 1
        elif error == OVER_BUDGET:
            self._over_budget += 1
        elif error == NO_NODE:
            if listed:
                self._vanished(path)
        elif error:
            code, what, done = _REFUSED.get(
                error, ("server_error", f"ZooKeeper returned error {error}.", "It is unknown.")
            )
            self._problems.add(code, path, what, done=done, severity="error")

    def _vanished(self, path: str) -> None:
        self._gone.add(path)
        self._problems.add(
            "vanished",
            path,
            "It was deleted between listing and reading.",
            done="It is skipped.",
            severity="info",
        )

    def _is_there(self, broker: str) -> bool:
        return f"{roots.BROKERS}/{broker}" not in self._gone

    def _close_books(self) -> None:
        reader = self._reader
        if self._over_budget:
            self._problems.add(
                "budget",
                reader.endpoint,
                f"The read budget was used up after {reader.reads:,} znodes; "
                f"{self._over_budget:,} znodes were not read.",
                done="Raise read_budget to read all averages.",
                severity="error",
            )
        if reader.failure is not None:
            self._problems.add(
                reader.failure.code,
                reader.endpoint,
                reader.failure.message,
                done=f"{self._unread:,} znodes were not read. {reader.failure.hint}".strip(),
                severity="error",
            )
        elif reader.losses:
            self._problems.add(
                "interrupted",
                reader.endpoint,
                f"The connection was lost {reader.losses} times during the capture.",
                done="The lost znodes were read again; rows may be from different times.",
            )


def _held(origins: Mapping[str, ReadAnswer]) -> dict[str, ZnodeOwnership]:
    """Return the sessions of znodes, which come with their values."""
    return {
        name: ZnodeOwnership(answer.session_id, answer.created_at, answer.modified_at)
        for name, answer in origins.items()
    }
