"""Rounds of the real leader's shedding, watched, each beside what Trimtab predicted for it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from time import monotonic
from typing import Final

from cluster_truth import REPORTS, ClusterTruth, Ownership
from java_process import wait_until
from our_reading import config_of
from real_pulsar import RealPulsar

from connectors.pulsar.collect import PulsarCollector
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import Round, active_shedding_strategy, shed_rounds
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

INTERVAL_S: Final = 60.0
GRACE_MINUTES: Final = 2
_CALM_S: Final = 5.0
_LATE_S: Final = 12.0
_PAUSE_S: Final = 0.5
_HOT_SHARE: Final = 0.65
_IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl"
_LOGGED: Final = re.compile(
    r"^(?P<at>\S+) .*?(?:Found bundle to unload with msgRate (?P<rate>\S+)"
    r"|Unloading bundle: (?P<bundle>\S+) from broker (?P<broker>\S+) to dest broker (?P<to>\S+)"
    r"|The destination broker (?P<same>\S+) is the same as .* for Bundle (?P<kept>\S+))",
    re.MULTILINE,
)


def shedding_on(strategy: str, **settings: object) -> dict[str, object]:
    """Return lines of ``broker.conf`` with which a cluster sheds once a minute."""
    return {
        "loadBalancerSheddingEnabled": True,
        "loadBalancerSheddingIntervalMinutes": int(INTERVAL_S / 60),
        "loadBalancerSheddingGracePeriodMinutes": GRACE_MINUTES,
        "loadBalancerLoadSheddingStrategy": f"{_IMPL}.{strategy}",
        **settings,
    }


@dataclass(frozen=True)
class Unload:
    """What the leader's log says of one bundle that it picked.

    Attributes:
        at: When.
        bundle: Name.
        broker: Its owner.
        destination: Where it is sent; the owner: it stays.
        rate: msg/s by the leader's own average; NaN where it does not tell.
    """

    at: datetime
    bundle: str
    broker: str
    destination: str
    rate: float

    @property
    def is_sent(self) -> bool:
        """Whether it is unloaded."""
        return self.destination != self.broker


@dataclass(frozen=True)
class BundleState:
    """The cluster as captured once, while nobody's bundles changed hands."""

    snapshot: PulsarSnapshot = field(repr=False)
    owners: Mapping[str, Ownership] = field(repr=False)
    taken_at: datetime


@dataclass(frozen=True, kw_only=True)
class Watched:
    """One round of the leader.

    Attributes:
        predicted: What Trimtab says of the last capture before it.
        rates: msg/s of every bundle by that capture, short-term average.
        age_s: Seconds from that capture to the first unload; ``None``: nothing was unloaded.
        moved: ``{bundle: (owner before, owner after)}`` by the ownership ephemerals.
        logged: What the leader's log says of it.
        lost: Bundles that load reports named as lost since.
    """

    predicted: Round
    rates: Mapping[str, float] = field(repr=False)
    age_s: float | None
    moved: Mapping[str, tuple[str, str]]
    logged: tuple[Unload, ...]
    lost: Collection[str] = ()

    @property
    def expected(self) -> set[str]:
        """Bundles that were predicted."""
        return {move.bundle for move in self.predicted.moves}

    @property
    def verdict(self) -> str:
        """How the two compare."""
        real, expected = set(self.moved), self.expected
        if real == expected:
            return "equal" if real else "equal: nothing"
        if real & expected:
            return "overlapping"
        return "same broker" if self.same_broker else "different"

    @property
    def same_broker(self) -> bool:
        """Whether the same brokers gave, or nobody in both."""
        predicted = {move.broker for move in self.predicted.moves}
        return predicted == {before for before, _ in self.moved.values()}

    @property
    def landings(self) -> list[float]:
        """Probability that was predicted for where each bundle of both went."""
        return [
            self.predicted.destinations[bundle].get(after, 0.0)
            for bundle, (_, after) in self.moved.items()
            if bundle in self.predicted.destinations
        ]

    @property
    def drift(self) -> float:
        """The largest share by which the leader's averages of its picks were off the written ones.

        The leader decides by its memory and writes it once a minute (15 in production).
        """
        off = [
            abs(each.rate - self.rates.get(each.bundle, 0.0)) / each.rate
            for each in self.logged
            if each.rate > 0
        ]
        return max(off, default=0.0)

    def lines(self, number: int) -> list[str]:
        """Return it in words."""
        age = "" if self.age_s is None else f", captured {self.age_s:.1f} s before"
        share = sum(p > 0 for p in self.landings)
        head = (
            f"round {number}: {self.verdict}; predicted {len(self.expected)}, unloaded"
            f" {len(self.moved)}, both {len(self.expected & set(self.moved))}{age};"
            f" {share} of {len(self.landings)} landed where p > 0;"
            f" {len(set(self.lost) & set(self.moved))} named by reports as lost;"
            f" averages of its picks up to {self.drift:.0%} off"
        )
        found = [head, f"    {self.predicted.decision.sentence}"]
        picked = {each.bundle for each in self.logged}
        for bundle in sorted(
            self.expected | set(self.moved) | picked, key=lambda b: -self.rates.get(b, 0)
        ):
            ours = (
                "predicted" if bundle in self.expected else self.predicted.skipped.get(bundle, "-")
            )
            before, after = self.moved.get(bundle, ("stayed", ""))
            chances = self.predicted.destinations.get(bundle, {})
            found.append(
                f"    {bundle} {self.rates.get(bundle, 0.0):.1f} msg/s: {ours}; {before} -> {after}"
                f" p={chances.get(after, 0.0):.2f}{self._by_the_log(bundle)}"
            )
        return found

    def _by_the_log(self, bundle: str) -> str:
        for each in self.logged:
            if each.bundle == bundle:
                whereto = f"sent to {each.destination}" if each.is_sent else "given back, so kept"
                return f"; the leader: {each.rate:.1f} msg/s, {whereto}"
        return ""


def _parsed(log: str) -> list[Unload]:
    """Read the picks of a log; the averages of a round stand before them, in the same order."""
    found: list[Unload] = []
    rates: list[float] = []
    is_naming = False
    for line in _LOGGED.finditer(log):
        if line["rate"]:
            rates = [float(line["rate"])] if is_naming else [*rates, float(line["rate"])]
            is_naming = False
            continue
        is_naming = True
        broker = (line["broker"] or line["same"]).removeprefix("http://")
        found.append(
            Unload(
                datetime.fromisoformat(line["at"].replace(",", ".")).astimezone(),
                line["bundle"] or line["kept"],
                broker,
                line["to"] or broker,
                rates.pop(0) if rates else math.nan,
            )
        )
    return found


class RoundWatcher:
    """Captures over and over, and tells the last capture before each round."""

    def __init__(self, cluster: RealPulsar, truth: ClusterTruth) -> None:
        self._cluster = cluster
        self._truth = truth
        self._collector = PulsarCollector(config_of(cluster))
        self._seen = 0
        self._due_at: float | None = None

    def close(self) -> None:
        """Let the collector go."""
        self._collector.close()

    def unloads(self) -> list[Unload]:
        """Return what the leader's log tells of its shedding, from its start on."""
        leader = self._truth.leader()
        assert leader is not None
        log = self._cluster.process(self._cluster.index_of(leader)).log.read_text(
            "utf-8", "replace"
        )
        return _parsed(log)

    def _owners(self) -> dict[str, Ownership]:
        found = ((bundle, self._truth.ownership(bundle)) for bundle in self._truth.owners())
        return {bundle: owner for bundle, owner in found if owner is not None}

    def next_round(self) -> Watched:
        """Watch until the leader has unloaded something, or a round is over without.

        Raises:
            TimeoutError: The bundles did not come to rest.
        """
        self._seen = len(self.unloads())
        due_at = self._due_at or monotonic() + INTERVAL_S
        last = self._sight()
        while monotonic() < due_at + _LATE_S:
            Event().wait(_PAUSE_S)
            sight = self._sight()
            if sight is None or (last is not None and sight.owners != last.owners):
                break
            if len(self.unloads()) > self._seen:
                break
            last = sight if monotonic() < due_at or last is None else last
        assert last is not None, "the round came before the first capture"
        self._due_at = due_at + INTERVAL_S  # unless an unload tells better
        return self._compared(last)

    def _sight(self) -> BundleState | None:
        """Capture once; ``None`` when bundles changed hands meanwhile."""
        before = self._owners()
        taken_at = datetime.now().astimezone()
        snapshot = self._collector.collect()
        return BundleState(snapshot, before, taken_at) if self._owners() == before else None

    def _compared(self, sight: BundleState) -> Watched:
        lost = self._wait_calm()
        logged = self.unloads()[self._seen :]
        first = min((each.at for each in logged), default=None)
        if first is not None:
            passed_s = (datetime.now().astimezone() - first).total_seconds()
            self._due_at = monotonic() - passed_s + INTERVAL_S
        after = self._owners()
        moved = {
            bundle: (owner.broker, after[bundle].broker if bundle in after else "nobody")
            for bundle, owner in sight.owners.items()
            if after.get(bundle) != owner
        }
        predicted, rates = self._predicted(sight)
        return Watched(
            predicted=predicted,
            rates=rates,
            age_s=None if first is None else (first - sight.taken_at).total_seconds(),
            moved=moved,
            logged=tuple(logged),
            lost=lost,
        )

    def _predicted(self, sight: BundleState) -> tuple[Round, dict[str, float]]:
        settings = effective_settings(sight.snapshot)
        view = LoadView.of(sight.snapshot, settings)
        # The leader's timer starts anew after each round, so that a bundle of exactly one grace
        # period ago is free again: half a round tells the two apart.
        rest_s = GRACE_MINUTES * 60 - INTERVAL_S / 2
        recent = [
            each.bundle
            for each in self.unloads()[: self._seen]
            if each.is_sent and (sight.taken_at - each.at).total_seconds() < rest_s
        ]
        strategy = active_shedding_strategy("modular", settings)
        predicted = next(shed_rounds(strategy, view, settings, recently_unloaded=recent))
        rates = dict(zip(map(str, view.bundles), map(float, view.bundle_short_rate), strict=True))
        return predicted, rates

    def _wait_calm(self) -> set[str]:
        """Wait until nothing changed hands for a while; return what reports name as lost."""
        lost: set[str] = set()
        seen: list[tuple[float, dict[str, Ownership], int]] = []

        def calm() -> bool:
            for report in self._truth.read(REPORTS).under(REPORTS).values():
                lost.update(report["lastBundleLosses"])
            now = (self._owners(), len(self.unloads()))
            if not seen or seen[0][1:] != now:
                seen[:] = [(monotonic(), *now)]
            return monotonic() - seen[0][0] > _CALM_S

        wait_until("bundles come to rest after a round", calm, within_s=40.0)
        return lost


def make_uneven(cluster: RealPulsar, truth: ClusterTruth, hot: str) -> int:
    """Send the biggest bundles to one broker until it carries most; return how many came."""
    reports = truth.read(REPORTS).under(REPORTS)
    rates = {
        (broker, bundle): stats["msgRateIn"] + stats["msgRateOut"]
        for broker, report in reports.items()
        for bundle, stats in report["lastStats"].items()
        if not bundle.startswith("pulsar/")
    }
    wanted = _HOT_SHARE * sum(rates.values())
    carried = sum(rate for (broker, _), rate in rates.items() if broker == hot)
    count = 0
    for (broker, bundle), rate in sorted(rates.items(), key=_by_rate):
        if broker == hot or carried >= wanted:
            continue
        before = truth.ownership(bundle)
        path = f"/admin/v2/namespaces/{bundle}/unload?destinationBroker={hot}"
        assert cluster.request("PUT", path).status_code == 204
        wait_until(f"{bundle} is owned again", _handed_on(truth, bundle, before), within_s=30.0)
        now = truth.ownership(bundle)
        if now is not None and now.broker == hot:  # the leader may lose a destination
            carried, count = carried + rate, count + 1
    return count


def _by_rate(item: tuple[tuple[str, str], float]) -> float:
    return -item[1]


def _handed_on(truth: ClusterTruth, bundle: str, before: Ownership | None) -> Callable[[], bool]:
    return lambda: truth.ownership(bundle) not in (None, before)
