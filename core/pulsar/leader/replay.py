"""Replay of a modular leader from ZooKeeper events.

The replay has what the leader has in memory: the last report of every broker, the time averages
of every bundle, the memory of the shedding strategy, the bundles in their grace period and the
phase of the rounds. A round is decided with what is known at its predicted start, by the strategy
and the placement of :mod:`core.pulsar.shedding` and :mod:`core.pulsar.placement`.

Source:
    Pulsar ``ModularLoadManagerImpl`` (``updateAll``, ``doLoadShedding``,
    ``writeBundleDataOnZooKeeper``), ``LeaderElectionService``.
Parity:
    What ZooKeeper does not show is not known: averages from before watching began, the thread order
    when a report arrives within milliseconds of a round, random placement, static settings.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from core.errors import InputError
from core.files import whole_file
from core.pulsar.java.maps import concurrent_order, natural_order, spread_hashes
from core.pulsar.leader import reports as decode
from core.pulsar.leader.averages import LEADER, BundleAverages
from core.pulsar.leader.events import ZnodeEvent
from core.pulsar.leader.futures import Changes, Present, draw_shares
from core.pulsar.leader.prediction import PredictedBundle, RoundPrediction
from core.pulsar.leader.schedule import Schedule
from core.pulsar.leader.views import BrokerFacts, Layout, current_averages
from core.pulsar.load import WEIGHED
from core.pulsar.releases import Release
from core.pulsar.setting_values import parse_upstream_value, typed_value
from core.pulsar.settings import (
    SETTING_BY_KEY,
    EffectiveSettings,
    find_release,
    known_setting,
)
from core.pulsar.shedding import Round, UnloadChecks, find_shedding_strategy, shed_round
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.assemble import decode_dynamic
from core.pulsar.snapshot.znodes.readings import Readings
from core.pulsar.snapshot.znodes.records import Leader, Ownership
from core.pulsar.view import LoadView
from core.snapshot.problems import ProblemLog
from core.units import pluralize

STRATEGY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_WRITE: Final = "loadBalancerResourceQuotaUpdateIntervalMinutes"

_LEADER: Final = roots.LEADERS[0]
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_UNUSABLE: Final = (
    *(OSError, EOFError, ValueError, KeyError, IndexError, TypeError, zipfile.BadZipFile),
    *_UNREADABLE,
)
"""What reading a damaged copy may raise."""

_BUNDLE: Final = re.compile(r"[^/]+/[^/]+(?:/[^/]+)?/0x[0-9a-fA-F]{1,8}_0x[0-9a-fA-F]{1,8}\Z")
_ISOLATION: Final = re.compile(r"/admin/clusters/([^/]+)/namespaceIsolationPolicies\Z")
_DOMAIN: Final = re.compile(r"/admin/clusters/([^/]+)/failureDomain/([^/]+)\Z")

_NEAR_S: Final = 0.3
"""A report due so near the start of a round may be counted in it or not."""

_EARLY_TRIES: Final = 5
"""Moves shortly before a round that are compared with what it selects; a broker's end has many."""

_MIN_SHARE: Final = 0.02
"""Bundles that fewer of the futures select are not shown."""

_AFFORDABLE: Final = 1_000_000
_MIN_DRAWS: Final = 10
_MAX_DRAWS: Final = 100
_GAPS: Final = 7
_MIN_REPORTS: Final = 3
_SAVE_FORMAT: Final = 1


@dataclass(slots=True)
class _Broker:
    """One broker as the leader knows it."""

    code: int
    facts: decode.Report | None = None
    version: int = -1
    czxid: int = -1
    reported_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Confidence:
    """Factors that reduce the confidence of predictions."""

    gaps: dict[str, float] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


class _SavedForm(msgspec.Struct):
    """Version of what is saved."""

    format: int


class _ReplayState(_SavedForm):
    """All of a replay that is no array of bundles."""

    names: list[str]
    codes: list[str]
    brokers: dict[str, _Broker]
    schedule: Schedule
    leader: str | None
    leader_czxid: int
    elected_s: float | None
    now_s: float
    quotas: dict[int, tuple[float, ...]]
    dynamic: bytes | None
    local_policies: dict[str, bytes]
    policies: dict[str, bytes]
    isolation: dict[str, bytes]
    domains: dict[str, dict[str, bytes]]
    changes: dict[int, list[list[float]]]
    turns: dict[int, int]
    gaps: dict[str, float]
    strategy: str
    memory: msgspec.Raw


class LeaderReplay:
    """Follow one cluster's leader by events, and predict its shedding rounds.

    Args:
        strategy: Class name, short or full; ``None`` for the configured one.
        configured: ``{key: value}`` of broker.conf, typed; what the cluster stores under
            ``/admin/configuration`` overrides it, as on a broker.
        release: Release line; ``None`` for that of most brokers.
        minute_s: Length of a minute of the settings, seconds; less in a sandbox whose time is
            compressed.
        cluster: Name for messages.

    Raises:
        UnknownNameError: No such strategy, setting or release.
        InputError: A value of the wrong type.
    """

    def __init__(
        self,
        strategy: str | None = None,
        *,
        configured: Mapping[str, object] | None = None,
        release: str | None = None,
        minute_s: float = 60.0,
        cluster: str = "cluster",
    ) -> None:
        self.cluster = cluster
        self.minute_s = minute_s
        self._named = None if strategy is None else find_shedding_strategy(strategy)
        self._release = release
        self._configured: dict[str, object] = {}
        self.configure(configured or {})
        self.start_over()

    def configure(self, configured: Mapping[str, object]) -> None:
        """Take over what broker.conf sets, for instance read from a broker's running values.

        Raises:
            UnknownNameError: No such setting.
            InputError: A value of the wrong type.
        """
        self._configured = {
            key: typed_value(known_setting(key), value) for key, value in configured.items()
        }
        self._settings: EffectiveSettings | None = None
        self._layout: Layout | None = None

    def start_over(self) -> None:
        """Forget everything that events brought: events were missed."""
        self.averages = BundleAverages()
        self.schedule = Schedule()
        self.confidence = Confidence()
        self.leader: str | None = None
        self.now_s = 0.0
        self.is_begun = False
        self._leader_czxid = -1
        self._brokers: dict[str, _Broker] = {}
        self._codes: list[str] = []
        self._order: dict[int, int] | None = None
        self._owner = np.full(64, -1, np.int32)
        self._changes = Changes()
        self._addresses: dict[str, str] = {}
        self._owners: dict[str, int] = {}
        self._readings = Readings()
        self._isolation: dict[str, bytes] = {}
        self._domains: dict[tuple[str, str], bytes] = {}
        self._early_tried: tuple[float | None, int] = (None, 0)
        self._state: object = None
        self._state_of = ""
        self._settings = None
        self._layout = None

    # events

    def apply(self, event: ZnodeEvent) -> list[RoundPrediction]:
        """Apply one event, in mzxid order; return the rounds that began before it."""
        if event.loses_watch:
            rounds = self._advance(event.received_at_s) if self.is_begun else []
            self.start_over()
            return rounds
        if event.kind == "init" and not self.is_begun:
            if event.is_znode:
                self.now_s = max(self.now_s, event.received_at_s)
                self._put(event)
            return []
        if not (event.is_znode or event.kind == "del"):
            return []
        self._begin()
        at_s = event.at_s
        if self._is_written_by_leader(event):
            self._write_averages(min(at_s, self.schedule.next_round_s or at_s))
            self.schedule.seen_writing(at_s)
        if self._begins_early(event):
            self.schedule.begin_early(at_s)
        rounds = self._advance(at_s)
        if event.is_znode:
            self._put(event)
        else:
            self._delete(event.path, event.at_s)
        self.now_s = max(self.now_s, at_s)
        return rounds

    def advance(self, to_s: float) -> list[RoundPrediction]:
        """Run the rounds that begin before a time; all events before it have been applied."""
        self._begin()
        rounds = self._advance(to_s)
        self.now_s = max(self.now_s, to_s)
        return rounds

    def _advance(self, to_s: float) -> list[RoundPrediction]:
        rounds: list[RoundPrediction] = []
        while (due := self.schedule.next_round_s) is not None and due <= to_s:
            self._write_averages(due)
            rounds.append(self._hold_round(due))
        self._write_averages(to_s)
        return rounds

    def _begins_early(self, event: ZnodeEvent) -> bool:
        """Return whether a bundle moves that is predicted for a slightly later round.

        Where processor time is short, the end of a round is seen late, and with it all that follow.
        """
        prefix = f"{roots.OWNERSHIP}/"
        is_release = event.kind == "del" and event.path.startswith(prefix)
        if not is_release or not self.schedule.may_begin_early(event.at_s):
            return False
        if self._early_tried[0] != self.schedule.next_round_s:
            self._early_tried = (self.schedule.next_round_s, 0)
        due_s, tries = self._early_tried
        if tries >= _EARLY_TRIES:
            return False
        self._early_tried = (due_s, tries + 1)
        prediction = self.predict(event.at_s, draws=0)
        return prediction is not None and event.path[len(prefix) :] in prediction.unloaded

    def _write_averages(self, to_s: float) -> None:
        """Take the samples that the leader takes when it writes its averages."""
        while self.schedule.write_due(to_s):
            self.averages.run(sides=(LEADER,))

    def _begin(self) -> None:
        """Take the initial state for complete."""
        if self.is_begun:
            return
        self.is_begun = True
        self.averages.begin_unknown()
        if self.leader is not None and self._elected_s is not None:
            self._elect(self._elected_s, self.now_s)

    _elected_s: float | None = None

    def _elect(self, at_s: float, now_s: float) -> None:
        settings = self.settings
        self.schedule.elect(
            at_s,
            now_s,
            round_every_s=self.minute_s * settings.number(_INTERVAL),
            write_every_s=self.minute_s * settings.number(_WRITE),
        )
        self._state, self._state_of = None, ""

    @staticmethod
    def _is_written_by_leader(event: ZnodeEvent) -> bool:
        written = (f"{roots.BROKER_AVERAGES}/", f"{roots.BUNDLE_DATA}/")
        return event.is_znode and event.path.startswith(written)

    def _put(self, event: ZnodeEvent) -> None:
        path, value = event.path, event.value or ""
        if path.startswith(f"{roots.BROKERS}/"):
            self._report(path[len(roots.BROKERS) + 1 :], event, value)
        elif path.startswith(f"{roots.OWNERSHIP}/"):
            self._own(path[len(roots.OWNERSHIP) + 1 :], event, value)
        elif path.startswith(f"{roots.BUNDLE_DATA}/"):
            self._store(path[len(roots.BUNDLE_DATA) + 1 :], value)
        elif path == _LEADER:
            self._lead(event, value)
        else:
            self._configure_znode(path, value.encode())

    def _delete(self, path: str, at_s: float) -> None:
        if path.startswith(f"{roots.BROKERS}/"):
            self._lose(path[len(roots.BROKERS) + 1 :], at_s)
        elif path.startswith(f"{roots.OWNERSHIP}/"):
            self._disown(path[len(roots.OWNERSHIP) + 1 :], at_s)
        elif path.startswith(f"{roots.BUNDLE_DATA}/"):
            row = self.averages.index.get(path[len(roots.BUNDLE_DATA) + 1 :])
            if row is not None:
                self.averages.unstore(row)
        elif path == _LEADER:
            self.leader, self._elected_s = None, None
            self.schedule.resign()
            self._layout = None
        else:
            self._configure_znode(path, None)

    # brokers

    def _report(self, name: str, event: ZnodeEvent, text: str) -> None:
        broker = self._brokers.get(name)
        if broker is None:
            broker = self._brokers[name] = _Broker(self._code(name))
            self._order = None
        version, czxid = event.version or 0, event.czxid or 0
        if broker.facts is not None and czxid == broker.czxid and version <= broker.version:
            return
        try:
            report = decode.decode_report(text)
            names, rates, topics = decode.rates_of(report)
        except _UNREADABLE as exc:
            self.confidence.unreadable[event.path] = str(exc)
            return
        rows, rates, topics = self._rows_of(names, rates, topics)
        runs = self._runs(name, broker, version, czxid, event)
        self._note_changes(broker, report, rows, rates)
        if self._changes_layout(broker.facts, report):
            self._layout = None
            self._learn_addresses(name, report)
        broker.facts, broker.version, broker.czxid = report, version, czxid
        broker.reported_s = [*broker.reported_s[-7:], event.at_s]
        is_new = bool((self._owner.size <= self.averages.size) or self._has_new(rows))
        self._fit_owner()
        self.averages.report(
            broker.code, (rows, rates, topics), runs=runs, order=self._broker_order
        )
        if is_new:
            self._layout = None

    def _note_changes(self, broker: _Broker, report: decode.Report, rows: Any, rates: Any) -> None:
        """Note what a report changes, for drawing futures."""
        if broker.facts is None:
            return
        old = broker.facts
        both = (self.averages.reporter[rows] == broker.code).nonzero()[0]
        change = rates[:, both] - self.averages.stats[:, rows[both]]
        self._changes.note(
            broker.code,
            rows[both],
            np.stack([change[0] + change[1], change[2] + change[3]]),
            np.array([*report.usages, *_totals(report)]) - [*old.usages, *_totals(old)],
            self.averages.named.size,
        )

    def _rows_of(self, names: Sequence[str], rates: Any, topics: Any) -> tuple[Any, Any, Any]:
        """Return rows of the bundles that have a valid name."""
        index = self.averages.index
        try:
            return np.array([index[name] for name in names], np.int64), rates, topics
        except KeyError:
            pass
        valid = [at for at, name in enumerate(names) if name in index or _BUNDLE.match(name)]
        rows = self.averages.rows(names[at] for at in valid)
        return rows, rates[:, valid], topics[valid]

    def _has_new(self, rows: Any) -> bool:
        """Return whether the layout lacks one of the bundles."""
        return self._layout is None or not self._layout.has(rows)

    def _runs(self, name: str, broker: _Broker, version: int, czxid: int, event: ZnodeEvent) -> int:
        """Return the runs that a report causes; those that were missed run at once."""
        if not self.is_begun:
            return 0
        if broker.facts is None:
            return 2
        if czxid != broker.czxid:  # deleted and created in between
            self.averages.report(broker.code, None, runs=2, order=self._broker_order)
            missed = version
            runs = 2
        else:
            missed = version - broker.version - 1
            runs = 1
        if missed > 0:
            self.confidence.gaps[name] = event.at_s
            self.averages.run(missed)
            rows = self.averages.rows_reported_by(broker.code)
            self.averages.catch_up(rows)
            self.averages.doubt(rows, 1.0 - 0.9**missed)
        return runs

    def _lose(self, name: str, at_s: float) -> None:
        broker = self._brokers.pop(name, None)
        if broker is None:
            return
        self.averages.report(broker.code, None, runs=2, order=self._broker_order)
        self._addresses = {at: of for at, of in self._addresses.items() if of != name}
        self._order = self._layout = None
        self.schedule.lost(name, at_s)

    def _code(self, name: str) -> int:
        if name not in self._codes:
            self._codes.append(name)
        return self._codes.index(name)

    def _learn_addresses(self, name: str, report: decode.Report) -> None:
        for address in (
            report.web_service_url,
            report.web_service_url_tls,
            report.pulsar_service_url,
            report.pulsar_service_url_tls,
        ):
            if address:
                self._addresses[address] = name
        self._owners.clear()

    @staticmethod
    def _changes_layout(old: decode.Report | None, new: decode.Report) -> bool:
        return old is None or (
            old.web_service_url,
            old.broker_version_string,
            old.load_manager_class_name,
            old.persistent_topics_enabled,
            old.non_persistent_topics_enabled,
        ) != (
            new.web_service_url,
            new.broker_version_string,
            new.load_manager_class_name,
            new.persistent_topics_enabled,
            new.non_persistent_topics_enabled,
        )

    @property
    def _broker_order(self) -> Mapping[int, int]:
        """Position of each broker in the leader's map, by code."""
        if self._order is None:
            names = list(self._brokers)
            names = [names[at] for at in natural_order(names).tolist()]
            order = concurrent_order(spread_hashes(names)).tolist()
            self._order = {self._brokers[names[at]].code: turn for turn, at in enumerate(order)}
        return self._order

    # ownership and what the leader wrote

    def _fit_owner(self) -> None:
        if self._owner.size < self.averages.named.size:
            more = np.full(self.averages.named.size - self._owner.size, -1, np.int32)
            self._owner = np.concatenate([self._owner, more])

    def _own(self, bundle: str, event: ZnodeEvent, text: str) -> None:
        if not _BUNDLE.match(bundle):
            return
        row = self.averages.row(bundle)
        self._fit_owner()
        if self._owner[row] >= 0 and event.kind != "init" and not event.version:
            self._disown(bundle, event.at_s)  # a poll saw neither the deletion nor the gap
        self._owner[row] = self._owner_code(text, event.path)
        if self._layout is not None and not self._layout.has(np.array([row])):
            self._layout = None
        if event.kind != "init":
            self.schedule.owned_again(bundle, event.at_s)

    def _owner_code(self, text: str, path: str) -> int:
        """Return the code of the broker that an ownership znode names; -1: unknown."""
        code = self._owners.get(text)
        if code is None:
            try:
                owner = msgspec.json.decode(text, type=Ownership)
            except _UNREADABLE as exc:
                self.confidence.unreadable[path] = str(exc)
                return -1
            addresses = (owner.http_url, owner.http_url_tls, owner.native_url, owner.native_url_tls)
            name = next((self._addresses[at] for at in addresses if at in self._addresses), None)
            if name is None:
                web = next((at for at in addresses[:2] if at), "")
                name = web.rpartition("://")[2]
                if not name:
                    return -1
                return self._code(name)  # not stored: a report may name it otherwise later
            code = self._owners[text] = self._code(name)
        return code

    def _disown(self, bundle: str, at_s: float) -> None:
        row = self.averages.index.get(bundle)
        if row is None or row >= self._owner.size:
            return
        code, self._owner[row] = int(self._owner[row]), -1
        if code >= 0 and self._codes[code] in self._brokers:
            self.schedule.moved(bundle, at_s)

    def _store(self, bundle: str, text: str) -> None:
        if not _BUNDLE.match(bundle):
            return
        try:
            data = decode.decode_bundle_data(text)
        except _UNREADABLE as exc:
            self.confidence.unreadable[f"{roots.BUNDLE_DATA}/{bundle}"] = str(exc)
            return
        row = self.averages.row(bundle)
        self._fit_owner()
        self.averages.store(row, data.samples, data.rates)

    # leader, policies, settings

    def _lead(self, event: ZnodeEvent, text: str) -> None:
        try:
            held = msgspec.json.decode(text, type=Leader)
        except _UNREADABLE as exc:
            self.confidence.unreadable[event.path] = str(exc)
            return
        name = held.broker_id or (held.service_url or "").rpartition("://")[2] or None
        czxid = event.czxid or 0
        if name == self.leader and czxid == self._leader_czxid:
            return
        self.leader, self._leader_czxid = name, czxid
        self._elected_s, self._layout = event.at_s, None
        if self.is_begun:
            self.averages.new_leader()
            self._elect(event.at_s, event.at_s)

    def _configure_znode(self, path: str, raw: bytes | None) -> None:
        """Keep a znode of settings or policies; the layout is made again."""
        held = self._readings
        if path == roots.CONFIGURATION:
            held.dynamic = raw
            self._settings = None
        elif path.startswith(f"{roots.RESOURCE_QUOTA}/"):
            self._quota(path[len(roots.RESOURCE_QUOTA) + 1 :], raw)
            return
        elif path.startswith(f"{roots.LOCAL_POLICIES}/"):
            _keep(held.local_policies, path[len(roots.LOCAL_POLICIES) + 1 :], raw)
        elif path.startswith(f"{roots.POLICIES}/"):
            _keep(held.policies, path[len(roots.POLICIES) + 1 :], raw)
        elif match := _ISOLATION.match(path):
            _keep(self._isolation, match[1], raw)
        elif match := _DOMAIN.match(path):
            _keep(self._domains, (match[1], match[2]), raw)
        else:
            return
        self._choose_cluster()
        self._layout = None

    def _choose_cluster(self) -> None:
        """Let the policies of the cluster itself count."""
        held = self._readings
        clusters = {*self._isolation, *(cluster for cluster, _ in self._domains)} - {"global"}
        if len(clusters) == 1:
            held.pulsar_cluster = next(iter(clusters))
        own = held.pulsar_cluster or ""
        held.isolation = self._isolation.get(own)
        held.failure_domains = {
            name: body for (cluster, name), body in self._domains.items() if cluster == own
        }

    def _quota(self, bundle: str, raw: bytes | None) -> None:
        if not _BUNDLE.match(bundle):
            return
        row = self.averages.row(bundle)
        self._fit_owner()
        self.averages.quotas.pop(row, None)
        if raw is None:
            return
        try:
            self.averages.quotas[row] = decode.decode_quota(raw.decode()).rates
        except _UNREADABLE as exc:
            self.confidence.unreadable[f"{roots.RESOURCE_QUOTA}/{bundle}"] = str(exc)

    @property
    def settings(self) -> EffectiveSettings:
        """The active settings of the leader."""
        if self._settings is None:
            stored = decode_dynamic(self._readings.dynamic, ProblemLog())
            dynamic: dict[str, object] = {}
            for key, text in stored.items():
                setting = SETTING_BY_KEY.get(key)
                if setting is None or not setting.is_dynamic:
                    continue
                try:
                    dynamic[key] = parse_upstream_value(setting, text)
                except InputError:
                    continue  # brokers store such a value and go on with the old one
            values = {**self._configured, **dynamic}
            if self._named is not None:
                values[STRATEGY] = self._named.name
            self._settings = EffectiveSettings.defaults(self._target, values)
            self._layout = None
        return self._settings

    @property
    def _target(self) -> Release:
        if self._release is not None:
            return find_release(self._release)
        versions = [
            broker.facts.broker_version_string
            for broker in self._brokers.values()
            if broker.facts is not None and broker.facts.broker_version_string
        ]
        return Release.of(max(set(versions), key=versions.count) if versions else None)

    @property
    def strategy(self) -> AnyStrategy:
        """The shedding strategy that the leader runs.

        Raises:
            UnknownNameError: The configured one is not known here.
        """
        return self._named or find_shedding_strategy(self.settings.text(STRATEGY))

    # rounds

    @property
    def round_every_s(self) -> float:
        """Seconds from the end of one round to the next."""
        return self.schedule.round_every_s

    @property
    def next_round_at_s(self) -> float | None:
        """Predicted start of the next round, seconds since the epoch; ``None`` if no leader."""
        return self.schedule.next_round_s

    def _hold_round(self, at_s: float) -> RoundPrediction:
        settings = self.settings
        self.schedule.round_every_s = self.minute_s * settings.number(_INTERVAL)
        grace_s = self.minute_s * settings.number(_GRACE)
        self.schedule.forget_rested(at_s, grace_s)
        view = self.view()
        done, state = self._decide(view, self.schedule.resting(at_s, grace_s))
        SheddingBasis.discard(view)
        self._state = state
        prediction = self._prediction(done, at_s, at_s)
        self.schedule.begin_round(
            {move.bundle: move.broker for move in done.decision.moves},
            expects_moves=bool(done.moves),
        )
        return prediction

    def predict(self, now_s: float, *, draws: int | None = None) -> RoundPrediction | None:
        """Return the next round by what is known now; changes nothing that a round depends on.

        Args:
            now_s: Time up to which all events were applied, seconds since the epoch.
            draws: Futures to draw for the shares; ``None`` for as many as affordable; 0: none,
                every share is 1.
        """
        self._begin()
        at_s = self.schedule.next_round_s
        if at_s is None or not self._brokers:
            return None
        grace_s = self.minute_s * self.settings.number(_GRACE)
        resting = self.schedule.resting(at_s, grace_s)
        view = self.view(self.schedule.writes_until(at_s))
        done, _ = self._decide(view, resting)
        prediction = self._prediction(done, at_s, now_s)
        if self.settings.shedding_off or len(view.brokers) <= 1:
            return prediction
        shares = self._shares(view, resting, now_s, at_s, draws)
        warnings = (*self.warnings(), *self._due_warning(at_s))
        if not self.schedule.is_anchored:
            warnings += (
                "The phase of the rounds is an estimate until the first move is observed.",
            )
        SheddingBasis.discard(view)
        return msgspec.structs.replace(
            prediction,
            bundles=_with_shares(prediction.bundles, shares),
            warnings=warnings,
        )

    def _shares(
        self,
        view: LoadView,
        resting: frozenset[str],
        now_s: float,
        at_s: float,
        draws: int | None,
    ) -> dict[tuple[str, str], float] | None:
        """Return the share of each bundle and source in futures; ``None`` if none are drawn."""
        if draws is None:
            draws = min(max(_AFFORDABLE // max(view.bundles.size, 1), _MIN_DRAWS), _MAX_DRAWS)
        layout = self._layout
        if not draws or layout is None:
            return None
        brokers = [self._brokers[name] for name in view.brokers]
        facts = self._facts()
        key = "loadBalancerReportUpdateMinIntervalMillis"
        present = Present(
            now_s=now_s,
            at_s=at_s,
            writes=self.schedule.writes_until(at_s),
            last_s=np.array([broker.reported_s[-1] for broker in brokers]),
            gaps=self._gaps(brokers),
            shortest_s=self.settings.number(key) / 1000.0 * self.minute_s / 60.0,
            rows=layout.order,
            reporter=view.reporter.astype(np.int64),
            owner=view.owner.astype(np.int64),
            usages=facts.usages,
            rates=facts.rates,
            codes=facts.codes,
        )
        strategy, config, state = self.strategy, self.strategy.config(self.settings), self._state

        def decide(columns: Any, usages: Any, rates: Any) -> list[tuple[str, str]]:
            changed = replace(facts, usages=usages, rates=rates)
            drawn = layout.redrawn(view, changed, columns)
            decision, _ = strategy.decide(drawn, config, state, resting)
            SheddingBasis.discard(drawn)
            return [(move.bundle, move.broker) for move in decision.moves]

        return draw_shares(present, self.averages, self._changes, decide, draws)

    def _gaps(self, brokers: Sequence[_Broker]) -> Any:
        """Return seconds between the last reports of each broker, ``(n, 7)``; NaN: unknown."""
        gaps = np.full((len(brokers), _GAPS), np.nan)
        for at, broker in enumerate(brokers):
            times = broker.reported_s
            for place, (early, late) in enumerate(pairwise(times[-_GAPS - 1 :])):
                gaps[at, place] = late - early
        return gaps

    def _due_warning(self, at_s: float) -> tuple[str, ...]:
        """Return a warning if a report is likely within a moment of the round."""
        known = {
            name: broker
            for name, broker in sorted(self._brokers.items())
            if len(broker.reported_s) >= _MIN_REPORTS
        }
        if not known:
            return ()
        usual = np.nanmedian(self._gaps(list(known.values())), axis=1)
        ahead = at_s - np.array([broker.reported_s[-1] for broker in known.values()])
        usual = np.maximum(usual, 2 * _NEAR_S)
        off = ahead % usual
        is_due = (np.minimum(off, usual - off) < _NEAR_S) & (ahead > usual / 2)
        due = [name for name, one in zip(known, is_due.tolist(), strict=True) if one]
        if not due:
            return ()
        more = f" and of {pluralize(len(due) - 1, 'other broker')}" if len(due) > 1 else ""
        return (f"A report of {due[0]}{more} is due within {_NEAR_S:g} s of the round.",)

    def _decide(self, view: LoadView, resting: frozenset[str]) -> tuple[Round, Any]:
        strategy = self.strategy
        if self._state is None or self._state_of != strategy.name:
            self._state, self._state_of = strategy.initial_state(), strategy.name
        return shed_round(strategy, UnloadChecks(view, self.settings), self._state, resting)

    def _prediction(self, done: Round, at_s: float, now_s: float) -> RoundPrediction:
        bundles = tuple(
            PredictedBundle(
                bundle=move.bundle,
                broker=move.broker,
                destinations=dict(done.destinations.get(move.bundle, {})),
                skipped=done.skipped.get(move.bundle, ""),
            )
            for move in done.decision.moves
        )
        return RoundPrediction(
            at_s=at_s,
            made_at_s=now_s,
            leader=self.leader,
            strategy=self.strategy.name,
            bundles=bundles,
            label=done.decision.label,
            reason=done.decision.reason,
            sentence=done.decision.sentence,
        )

    def warnings(self) -> tuple[str, ...]:
        """Return the reasons for lower confidence in the predictions, a sentence each."""
        found = [
            f"Reports of {name} were missed: the samples are added, their values are unknown."
            for name in sorted(self.confidence.gaps)
        ]
        if self.confidence.unreadable:
            path, why = next(iter(self.confidence.unreadable.items()))
            more = len(self.confidence.unreadable) - 1
            others = f", nor {pluralize(more, 'other znode')}" if more else ""
            found.append(f"Znode {path} cannot be read{others}: {why.rstrip('.')}.")
        return tuple(found)

    # a copy for a restart

    def held_paths(self) -> Iterator[str]:
        """Yield the paths of all znodes that a restarted observer checks for deletion."""
        if self.leader is not None:
            yield _LEADER
        for name in self._brokers:
            yield f"{roots.BROKERS}/{name}"
        names, size = self.averages.names, self.averages.size
        for row in np.flatnonzero(self._owner[:size] >= 0).tolist():
            yield f"{roots.OWNERSHIP}/{names[row]}"
        for row in np.flatnonzero(self.averages.written_samples[0, :size] >= 0).tolist():
            yield f"{roots.BUNDLE_DATA}/{names[row]}"

    def save(self, path: Path) -> None:
        """Write everything that is needed to go on after a restart; replaces the file at once.

        Raises:
            OSError: It cannot be written.
        """
        self._begin()
        held, turns = self._changes.brokers()
        domains: dict[str, dict[str, bytes]] = {}
        for (cluster, name), body in self._domains.items():
            domains.setdefault(cluster, {})[name] = body
        saved = _ReplayState(
            format=_SAVE_FORMAT,
            names=self.averages.names,
            codes=self._codes,
            brokers=self._brokers,
            schedule=self.schedule,
            leader=self.leader,
            leader_czxid=self._leader_czxid,
            elected_s=self._elected_s,
            now_s=self.now_s,
            quotas=self.averages.quotas,
            dynamic=self._readings.dynamic,
            local_policies=self._readings.local_policies,
            policies=self._readings.policies,
            isolation=self._isolation,
            domains=domains,
            changes=held,
            turns=turns,
            gaps=self.confidence.gaps,
            strategy=self._state_of,
            memory=msgspec.Raw(msgspec.json.encode(self._state)),
        )
        arrays: dict[str, Any] = {
            **self.averages.arrays(),
            "saved": np.frombuffer(msgspec.json.encode(saved), np.uint8),
            "owner": self._owner,
            "changes": self._changes.bundles,
        }
        with whole_file(path) as out:
            np.savez(out, allow_pickle=False, **arrays)

    def load(self, path: Path) -> None:
        """Go on from what :meth:`save` wrote.

        What changed in between comes as events: the state of every znode as ``init``, in mzxid
        order, and a ``del`` for each of :meth:`held_paths` that is gone. Reports that were missed
        are noticed by their versions.

        Raises:
            InputError: The file cannot be read, or another version of Trimtab wrote it.
        """
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as arrays:
                self.start_over()
                self._restore(_decode_saved(arrays["saved"].tobytes()), arrays)
        except _UNUSABLE as exc:
            self.start_over()
            raise InputError(
                f"Saved state {path} of the leader observer cannot be used: {exc}.",
                hint="Remove it: the observer then starts again.",
            ) from exc

    def _restore(self, saved: _ReplayState, arrays: Mapping[str, Any]) -> None:
        self._codes, self._brokers = saved.codes, saved.brokers
        self.averages = BundleAverages.of_arrays(saved.names, arrays, self._broker_order)
        self.averages.quotas = saved.quotas
        self._owner = arrays["owner"]
        self._fit_owner()
        self._changes.restore(arrays["changes"], saved.changes, saved.turns)
        self.schedule, self.leader = saved.schedule, saved.leader
        self._leader_czxid, self._elected_s = saved.leader_czxid, saved.elected_s
        self.now_s, self.confidence.gaps = saved.now_s, saved.gaps
        held = self._readings
        held.dynamic, held.policies = saved.dynamic, saved.policies
        held.local_policies = saved.local_policies
        self._isolation = saved.isolation
        self._domains = {
            (cluster, name): body
            for cluster, bodies in saved.domains.items()
            for name, body in bodies.items()
        }
        self._choose_cluster()
        for name, broker in self._brokers.items():
            if broker.facts is not None:
                self._learn_addresses(name, broker.facts)
        if saved.strategy:
            strategy = find_shedding_strategy(saved.strategy)
            kind = type(strategy.initial_state())
            self._state = msgspec.json.decode(saved.memory, type=kind)
            self._state_of = saved.strategy
        self.is_begun = True

    # the leader's load

    def _facts(self) -> BrokerFacts:
        names = sorted(name for name, broker in self._brokers.items() if broker.facts is not None)
        held = [self._brokers[name] for name in names]
        facts = [broker.facts for broker in held if broker.facts is not None]
        return BrokerFacts(
            names=tuple(names),
            codes=np.array([broker.code for broker in held], np.int64),
            versions=tuple(one.broker_version_string for one in facts),
            classes=tuple(one.load_manager_class_name for one in facts),
            persistent=tuple(one.persistent_topics_enabled for one in facts),
            non_persistent=tuple(one.non_persistent_topics_enabled for one in facts),
            usages=np.array([one.usages for one in facts], np.float64).reshape(
                -1, 2 * len(WEIGHED)
            ),
            rates=np.array([_totals(one) for one in facts], np.float64).reshape(-1, 4),
            topics=np.array([one.num_topics for one in facts], np.int64),
            bundles=np.array([one.num_bundles for one in facts], np.int64),
        )

    def view(self, more: int = 0) -> LoadView:
        """Return the load of the cluster as the leader has it.

        Args:
            more: Samples that the leader takes of the present reports before it decides.
        """
        settings = self.settings
        facts = self._facts()
        if self._layout is None or self._layout.facts.identity != facts.identity:
            self._layout = Layout(
                self.averages,
                self._owner,
                facts,
                readings=self._readings,
                leader=self.leader,
                settings=settings,
                cluster=self.cluster,
            )
        layout, averages = self._layout, self.averages
        averages.catch_up_all()
        order = layout.order
        short, long = current_averages(averages, order, more)
        at = np.full(len(self._codes) + 1, -1, np.int32)
        at[facts.codes] = np.arange(facts.codes.size)
        reporter = at[averages.reporter[order]]
        stats = averages.stats[:, order]
        is_named = reporter >= 0
        further = self._further(order, at, reporter)
        rate = long[0] + long[1]
        sums = np.bincount(
            np.append(reporter[is_named], further[:, 1]),
            weights=np.append(rate[is_named], rate[further[:, 0]]),
            minlength=facts.codes.size,
        )
        return layout.view(
            facts,
            {
                "broker_short_rate": np.zeros(facts.codes.size),
                "broker_long_rate": sums,
                "owner": at[self._owner[order]],
                "reporter": reporter,
                "bundle_msg_rate": stats[0] + stats[1],
                "bundle_throughput": stats[2] + stats[3],
                "is_measured": is_named,
                "bundle_short_rate": short[0] + short[1],
                "bundle_short_throughput": short[2] + short[3],
                "bundle_long_rate": rate,
                "bundle_topics": averages.topics[order].astype(np.int64),
                "further_reports": further,
            },
        )

    def _further(self, order: Any, at: Any, reporter: Any) -> Any:
        """Return rows of bundle and broker where a second report names a bundle."""
        several = self.averages.several
        if not several:
            return np.zeros((0, 2), np.int64)
        place = np.full(self.averages.size, -1, np.int64)
        place[order] = np.arange(order.size)
        pairs = [
            (int(place[row]), int(at[code]))
            for row, codes in several.items()
            for code in codes
            if place[row] >= 0 and at[code] >= 0 and at[code] != reporter[place[row]]
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)


def _decode_saved(raw: bytes) -> _ReplayState:
    """Return the saved state.

    Raises:
        ValueError: Another version of Trimtab wrote it.
        msgspec.MsgspecError: It is damaged.
    """
    if msgspec.json.decode(raw, type=_SavedForm).format != _SAVE_FORMAT:
        raise ValueError("another version of Trimtab wrote it")
    return msgspec.json.decode(raw, type=_ReplayState)


def _with_shares(
    bundles: Sequence[PredictedBundle], shares: Mapping[tuple[str, str], float] | None
) -> tuple[PredictedBundle, ...]:
    """Return predicted bundles with their shares, and those that only some futures select."""
    if shares is None:
        return tuple(bundles)
    by_bundle: dict[str, float] = {}
    for (bundle, _), share in shares.items():
        by_bundle[bundle] = min(by_bundle.get(bundle, 0.0) + share, 1.0)
    selected = {one.bundle for one in bundles}
    further = [
        PredictedBundle(bundle=bundle, broker=broker, share=by_bundle[bundle], is_selected=False)
        for (bundle, broker), share in sorted(shares.items(), key=lambda one: (-one[1], one[0]))
        if bundle not in selected and share >= _MIN_SHARE
    ]
    unique = {one.bundle: one for one in reversed(further)}
    return (
        *(msgspec.structs.replace(one, share=by_bundle.get(one.bundle, 0.0)) for one in bundles),
        *sorted(unique.values(), key=lambda one: (-one.share, one.bundle)),
    )


def _totals(report: decode.Report) -> tuple[float, ...]:
    return (
        report.msg_rate_in,
        report.msg_rate_out,
        report.msg_throughput_in,
        report.msg_throughput_out,
    )


def _keep(place: dict[Any, bytes], name: Any, raw: bytes | None) -> None:
    if raw is None:
        place.pop(name, None)
    else:
        place[name] = raw
