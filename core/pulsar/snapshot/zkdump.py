"""Make a snapshot out of a ZooKeeper dump: one JSON object a line, ``{"path", "value", ...}``.

Other keys (``ephemeral``, ``ephemeralOwner``, ``ctime``, ``mtime``) are used when present. A dump
may hold only ``/loadbalance``: the owner of a bundle is then the broker whose report names it, and
boundaries come from the bundle names seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from core.bounds import MAX_LINE_BYTES, TooLargeError, checked_json
from core.errors import InputError
from core.pulsar.snapshot.znodes import Readings, assemble
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.decode import UNREADABLE
from core.pulsar.snapshot.znodes.readings import ZnodeOwnership
from core.snapshot.model import Manifest, PulsarSnapshot, TableManifest
from core.snapshot.problems import ProblemLog
from core.units import datetime_to_ms, ms_to_datetime

_FAILURE_DOMAIN: Final = re.compile(r"/admin/clusters/([^/]+)/failureDomain/([^/]+)\Z")
_ISOLATION: Final = re.compile(r"/admin/clusters/([^/]+)/namespaceIsolationPolicies\Z")
_CLUSTER: Final = re.compile(r"/admin/clusters/([^/]+)\Z")
_MAX_UNREADABLE: Final = 10_000
"""Lines without a znode; with more of them a file is something else."""
_FORM: Final = 'Each line must have the form {"path": "/loadbalance/...", "value": ...}.'
_EMPTY: Final = b" "
_BROKER: Final = re.compile(r"[^/]+\Z")
_NAMESPACE: Final = re.compile(r"[^/]+/[^/]+\Z")
_BUNDLE: Final = re.compile(r".+/0x[^/]*\Z")
_QUOTA: Final = re.compile(r"(default|.+/0x[^/]*)\Z")


class _Line(msgspec.Struct):
    path: str
    value: msgspec.Raw = msgspec.Raw()
    mtime: int | None = None
    ctime: int | None = None
    ephemeral: bool | None = None
    ephemeral_owner: int | None = msgspec.field(default=None, name="ephemeralOwner")

    @property
    def held(self) -> ZnodeOwnership:
        """Session of the znode, if the dump has it."""
        session_id = 0 if self.ephemeral is False else None
        return ZnodeOwnership(
            session_id if self.ephemeral_owner is None else self.ephemeral_owner,
            self.ctime,
            self.mtime,
        )


def import_zk_dump(path: Path, cluster: str, now: datetime) -> PulsarSnapshot:
    """Read a dump into a snapshot.

    A line that is no JSON object with a path is a problem that names its number; the rest loads.

    Args:
        path: The dump.
        cluster: Trimtab's name for the cluster.
        now: The present, aware UTC: the snapshot's moment where the dump tells none. Else that
            is the newest load report or znode in it, so that its ages are those of that day.
    Raises:
        InputError: The file cannot be read, holds no znode of Pulsar at all, or more than 10,000
            lines without one.
    """
    problems = ProblemLog()
    readings = Readings()
    taken = _ZnodeSorter(readings)
    line_count = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(_lines(lines, path), 1):
                if line.strip():
                    line_count += 1
                    _read_line(taken, line, f"{path.name} line {number}", problems)
    except OSError as exc:
        raise InputError(
            f"{path} cannot be read: {exc.strerror}.", hint="Specify a file of JSON lines."
        ) from exc
    if not taken.count:
        raise InputError(_nothing_taken(path, line_count, problems), hint=_FORM)
    readings.pulsar_cluster = roots.own_cluster(taken.clusters)
    taken.finish()
    return _snapshot(taken, cluster, now, problems)


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a dump.

    Raises:
        InputError: One is longer than any znode can be; a device or a pipe may never end it.
    """
    count = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        count += 1
        if len(line) > MAX_LINE_BYTES:
            limit = f"{MAX_LINE_BYTES // 2**20} MiB"
            raise InputError(f"{path} line {count} is longer than {limit}.", hint=_FORM)
        yield line


def take_dump(path: Path, body: bytes, readings: Readings, problems: ProblemLog) -> int:
    """Add the znodes of a dump to the readings of a cluster.

    Args:
        path: Its file, for the problems.
        body: Its lines.
        readings: Filled here.
        problems: Gets the lines that are no znodes.
    Returns:
        When the newest of them was written, ms since the epoch; 0: the dump does not tell.
    Raises:
        InputError: It holds no znode of Pulsar at all.
    """
    taken = _ZnodeSorter(readings)
    lines = [line for line in body.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        _read_line(taken, line, f"{path.name} line {number}", problems)
    if not taken.count:
        raise InputError(_nothing_taken(path, len(lines), problems), hint=_FORM)
    readings.pulsar_cluster = roots.own_cluster(taken.clusters)
    taken.finish()
    return taken.newest_mtime


def _nothing_taken(path: Path, line_count: int, problems: ProblemLog) -> str:
    """Return the reason a file gave no znode: empty, not a dump, or another dump."""
    if not line_count:
        return f"{path} is an empty file."
    malformed = problems.named()
    if malformed:
        return f"{path.parent / malformed[0].place}: {malformed[0].what}"
    return f"{path} has no znode of Pulsar's load balancing."


def _snapshot(
    taken: _ZnodeSorter, cluster: str, now: datetime, problems: ProblemLog
) -> PulsarSnapshot:
    readings = taken.readings
    made = assemble(readings, problems)
    # a cluster has at least its own tenant's policies: none means that the dump is of a part
    lacks = () if readings.policies or readings.local_policies else ("policies",)
    tables = {
        name: TableManifest(
            source="none" if name in lacks else "dump",
            rows=table.num_rows,
            expected=made.expected.get(name),
            oldest_at=made.oldest_at.get(name),
        )
        for name, table in made.tables.items()
    }
    manifest = Manifest(
        cluster=cluster,
        taken_at=_moment(made.tables["brokers"], taken.newest_mtime, now),
        tables=tables,
        pulsar_cluster=readings.pulsar_cluster,
        load_manager=made.load_manager,
        leader=made.leader,
        release=made.release,
        problems=problems.named(),
        unavailable=made.unavailable,
    )
    return PulsarSnapshot.build(manifest, made.tables)


def _moment(brokers: pa.Table, newest_mtime: int, now: datetime) -> datetime:
    """Return the time of the dump from its own times; never after ``now``."""
    newest_report = pc.max(brokers["reported_at"]).as_py() or 0
    newest = max(newest_report, newest_mtime)
    return ms_to_datetime(newest) if 0 < newest <= datetime_to_ms(now) else now


class _ZnodeSorter:
    """Sorts znodes into readings by their path."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.count = 0
        self.newest_mtime = 0
        self.clusters: list[str] = []
        self.isolation: dict[str, bytes] = {}
        self.domains: dict[str, dict[str, bytes]] = {}
        self._under: tuple[tuple[str, Callable[[str, bytes, int | None], None]], ...] = (
            (roots.BROKERS, lambda name, raw, _: self._put(readings.brokers, name, raw, _BROKER)),
            (
                roots.BROKER_AVERAGES,
                lambda name, raw, _: self._put(readings.broker_averages, name, raw, _BROKER),
            ),
            (roots.BUNDLE_DATA, self._bundle_data),
            (
                roots.RESOURCE_QUOTA,
                lambda name, raw, _: self._put(readings.resource_quotas, name, raw, _QUOTA),
            ),
            (roots.OWNERSHIP, self._ownership),
            (
                roots.LOCAL_POLICIES,
                lambda name, raw, _: self._put(readings.local_policies, name, raw, _NAMESPACE),
            ),
            (
                roots.POLICIES,
                lambda name, raw, _: self._put(readings.policies, name, raw, _NAMESPACE),
            ),
        )

    def take(self, path: str, raw: bytes, mtime: int | None) -> None:
        """Keep one znode when it is one of those that matter."""
        readings = self.readings
        self.newest_mtime = max(self.newest_mtime, mtime or 0)
        if mtime and path.startswith(f"{roots.BUNDLE_DATA}/"):
            readings.bundle_data_written = max(readings.bundle_data_written or 0, mtime)
        elif mtime and path.startswith(f"{roots.BROKER_AVERAGES}/"):
            readings.averages_written[path[len(roots.BROKER_AVERAGES) + 1 :]] = mtime
        for root, keep in self._under:
            if path.startswith(f"{root}/"):
                keep(path[len(root) + 1 :], raw, mtime)
                return
        if path in roots.LEADERS:
            readings.leader, readings.leader_place = raw, path
            self.count += 1
        elif path == roots.CONFIGURATION:
            readings.dynamic = raw
            self.count += 1
        elif path == roots.OWNERSHIP:
            readings.owners_known = True
        else:
            self._cluster(path, raw)

    def hold(self, path: str, held: ZnodeOwnership) -> None:
        """Keep how a znode is held that was taken."""
        readings = self.readings
        root, _, name = path.rpartition("/")
        bundle = path[len(roots.OWNERSHIP) + 1 :]
        if root == roots.BROKERS and name in readings.brokers:
            readings.brokers_held[name] = held
        elif path == readings.leader_place and readings.leader is not None:
            readings.leader_held = held
        elif path.startswith(f"{roots.OWNERSHIP}/") and bundle in readings.ownership:
            readings.ownership_held[bundle] = held

    def _put(self, place: dict[str, bytes], name: str, raw: bytes, form: re.Pattern[str]) -> None:
        if form.match(name):
            place[name] = raw
            self.count += 1

    def _bundle_data(self, name: str, raw: bytes, mtime: int | None) -> None:
        del mtime
        self._put(self.readings.bundle_data, name, raw, _BUNDLE)

    def _ownership(self, name: str, raw: bytes, mtime: int | None) -> None:
        del mtime
        self.readings.owners_known = True
        self._put(self.readings.ownership, name, raw, _BUNDLE)

    def _cluster(self, path: str, raw: bytes) -> None:
        if match := _CLUSTER.match(path):
            self.clusters.append(match[1])
        elif match := _ISOLATION.match(path):
            self.isolation[match[1]] = raw
        elif match := _FAILURE_DOMAIN.match(path):
            self.domains.setdefault(match[1], {})[match[2]] = raw

    def finish(self) -> None:
        """Keep the cluster-wide policies of the cluster itself."""
        own = self.readings.pulsar_cluster
        if own is None and len(self.isolation.keys() | self.domains.keys()) == 1:
            own = next(iter(self.isolation or self.domains))
        self.readings.isolation = self.isolation.get(own or "")
        self.readings.failure_domains = self.domains.get(own or "", {})


def _read_line(taken: _ZnodeSorter, line: bytes, place: str, problems: ProblemLog) -> None:
    try:
        entry = msgspec.json.decode(checked_json(line), type=_Line)
        raw = bytes(entry.value)
        if raw.startswith(b'"'):
            raw = msgspec.json.decode(raw, type=str).encode()  # some dump tools quote the value
    except (*UNREADABLE, TooLargeError) as exc:
        problems.add(
            "malformed",
            place,
            _malformation(exc),
            done="The line is skipped.",
            severity="error",
        )
        if len(problems) > _MAX_UNREADABLE:
            text = f"More than {_MAX_UNREADABLE:,} lines up to {place} have no znode."
            raise InputError(text, hint=_FORM) from exc
        return
    if raw in (b"", b"null"):
        raw = _EMPTY  # a folder, or a znode that lacks its value and is named as malformed
    taken.take(entry.path, raw, entry.mtime)
    taken.newest_mtime = max(taken.newest_mtime, entry.ctime or 0)
    if entry.held != ZnodeOwnership(None, None):
        taken.hold(entry.path, entry.held)


def _malformation(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "It is nested too deeply."
    if isinstance(exc, TooLargeError):
        return f"It is too large: {exc}."
    if isinstance(exc, UnicodeDecodeError):
        return "It is not UTF-8 text."
    if isinstance(exc, msgspec.ValidationError):
        return f'It is not a JSON object {{"path", "value"}}: {str(exc).rstrip(".")}.'
    return f"It is not JSON: {str(exc).rstrip('.')}."
