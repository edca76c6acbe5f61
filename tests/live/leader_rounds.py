"""Shedding rounds of a real leader, recorded: its znodes by Trimtab, the true rounds from its log.

As a script it records clusters of several strategies one after the other, each a new one::

    python tests/live/leader_rounds.py FOLDER --minutes 21 uniform threshold avg

With ``--beside PORT`` collector and pages of Trimtab run beside each cluster, the pages on that
port, and what they published of each round is kept in ``NAME.beside.json``;
``leader_scores.py --beside`` compares it with the leader's log.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # run as a script

import msgspec
from cluster_truth import ClusterTruth
from leader_beside import ProductBeside
from our_reading import config_of
from real_pulsar import RealPulsar, RealPulsarOptions, why_not
from traffic import Traffic, make_namespaces

from connectors.pulsar.leader.recording import LeaderRecording
from core.pulsar.leader.events import read_recording

INTERVAL_S: Final = 60.0
_SAME_ROUND_S: Final = 40.0
_SLACK_S: Final = 5.0
_IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl"
_COMMON: Final[Mapping[str, object]] = {
    "statsUpdateFrequencyInSecs": 10,
    "loadBalancerSheddingEnabled": True,
    "loadBalancerSheddingIntervalMinutes": 1,
    "loadBalancerSheddingGracePeriodMinutes": 2,
    "loadBalancerReportUpdateMinIntervalMillis": 5000,
    "loadBalancerReportUpdateMaxIntervalMinutes": 1,
    "loadBalancerReportUpdateThresholdPercentage": 10,
    "loadBalancerBrokerOverloadedThresholdPercentage": 100,
    "loadBalancerOverrideBrokerNicSpeedGbps": 1,
    "loadBalancerCPUResourceWeight": 0.0,
    "minUnloadMessage": 10,
    "minUnloadMessageThroughput": 10_000,
    "maxUnloadPercentage": 0.5,
}
_LOOPBACK: Final[Mapping[str, object]] = {
    "loadBalancerOverrideBrokerNics": "lo",
    "loadBalancerOverrideBrokerNicSpeedGbps": 0.05,
}
SERIES: Final[Mapping[str, Mapping[str, object]]] = {
    "uniform": {
        **_COMMON,
        "loadBalancerLoadSheddingStrategy": f"{_IMPL}.UniformLoadShedder",
        "loadBalancerResourceQuotaUpdateIntervalMinutes": 1,
        "loadBalancerMsgRateDifferenceShedderThreshold": 10,
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 1.2,
    },
    # Usage of processors and network cards is the machine's here. Each broker measures loopback
    # over another minute, so that shifting traffic makes their usage differ.
    "threshold": {
        **_COMMON,
        **_LOOPBACK,
        "loadBalancerLoadSheddingStrategy": f"{_IMPL}.ThresholdShedder",
        "loadBalancerResourceQuotaUpdateIntervalMinutes": 15,
        "loadBalancerBrokerThresholdShedderPercentage": 0,
        "loadBalancerHistoryResourcePercentage": 0.5,
        "loadBalancerBundleUnloadMinThroughputThreshold": 0.001,
        "loadBalancerDistributeBundlesEvenlyEnabled": False,
    },
    "avg": {
        **_COMMON,
        **_LOOPBACK,
        "loadBalancerLoadSheddingStrategy": f"{_IMPL}.AvgShedder",
        "loadBalancerLoadPlacementStrategy": f"{_IMPL}.AvgShedder",
        "loadBalancerResourceQuotaUpdateIntervalMinutes": 15,
        "loadBalancerAvgShedderLowThreshold": 0,
        "loadBalancerAvgShedderHighThreshold": 1,
        "loadBalancerAvgShedderHitCountLowThreshold": 1,
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
        "loadBalancerDistributeBundlesEvenlyEnabled": False,
    },
}

_LINE: Final = re.compile(
    r"^(?P<at>\d\S+) \[[^]]*\] \S+ +\S+ - (?:\[[^]]*\] )?(?:"
    r"Unloading bundle: (?P<sent>\S+) from broker \S+ to dest broker (?P<to>\S+)"
    r"|The destination broker \S+ is the same as the current owner broker for Bundle (?P<same>\S+)"
    r"|No broker available to unload bundle (?P<unassigned>\S+) from"
    r"|(?P<idle>\S+ broker is not overloaded|sorted broker list|highThreshold:"
    r"|Found bundles for uniform))",
    re.MULTILINE,
)


@dataclass(kw_only=True)
class LoggedRound:
    """One round as the leader's log has it.

    Attributes:
        t: Its first line, seconds since the epoch; of an idle round without a line, interpolated.
        end: Its last line.
        selected: What the strategy selected, in order.
        unloaded: What was unloaded of it.
        destination: Where each was sent.
        is_logged: Whether there is a line of it.
    """

    t: float
    end: float
    selected: list[str] = field(default_factory=list)
    unloaded: list[str] = field(default_factory=list)
    destination: dict[str, str] = field(default_factory=dict)
    is_logged: bool = True


def logged_rounds(log: str, first_s: float, until_s: float) -> list[LoggedRound]:
    """Read the rounds of a leader's log; rounds without a line are filled in by the schedule.

    Args:
        log: Its text.
        first_s: When the first round was due, seconds since the epoch.
        until_s: When watching ended.
    """
    seen: list[LoggedRound] = []
    for line in _LINE.finditer(log):
        at = datetime.fromisoformat(line["at"].replace(",", ".")).timestamp()
        if at < first_s - 1.0 or at > until_s:
            continue
        if not seen or at - seen[-1].end > _SAME_ROUND_S:
            seen.append(LoggedRound(t=at, end=at))
        now = seen[-1]
        now.end = at
        bundle = line["sent"] or line["same"] or line["unassigned"]
        if bundle and bundle not in now.selected:
            now.selected.append(bundle)
        if line["sent"]:
            now.unloaded.append(line["sent"])
            now.destination[line["sent"]] = line["to"].removeprefix("http://")
    return _filled(seen, first_s, until_s)


def _filled(seen: list[LoggedRound], first_s: float, until_s: float) -> list[LoggedRound]:
    found: list[LoggedRound] = []
    before_s = first_s - INTERVAL_S
    for one in seen:
        # rounds begin late, never early: the first unload of one may take half a minute
        missing = int((one.t - before_s + _SLACK_S) // INTERVAL_S) - 1
        step_s = (one.t - before_s) / (missing + 1)
        found += [_idle(before_s + step_s * (i + 1)) for i in range(missing)]
        found.append(one)
        before_s = one.end
    while before_s + INTERVAL_S < until_s:
        before_s += INTERVAL_S
        found.append(_idle(before_s))
    return found


def _idle(at_s: float) -> LoggedRound:
    return LoggedRound(t=at_s, end=at_s, is_logged=False)


def record_series(name: str, folder: Path, minutes: float, port: int | None = None) -> Path:
    """Start a new cluster, record it and write recording, true rounds and settings.

    Args:
        name: Key of :data:`SERIES`.
        folder: Where ``NAME.jsonl.gz``, ``NAME.rounds.json`` and ``NAME.settings.json`` go.
        minutes: How long.
        port: Of the pages of Trimtab beside it; ``None``: without.

    Returns:
        The recording.
    """
    settings = SERIES[name]
    out = folder / f"{name}.jsonl.gz"
    stop = threading.Event()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"trimtab-{name}-")))
        options = RealPulsarOptions(broker_settings=settings, debug_loggers=(_IMPL,))
        cluster = stack.enter_context(RealPulsar(home, options))
        recording = LeaderRecording(config_of(cluster), out)
        watching = threading.Thread(target=recording.run, args=(stop,), name="recorder")
        watching.start()
        stack.callback(watching.join)
        stack.callback(stop.set)
        make_namespaces(cluster)
        stack.enter_context(Traffic(cluster, scale=0.5, shift_every_s=45.0)).wait_flowing()
        beside = None
        if port is not None:
            beside = stack.enter_context(ProductBeside(cluster, folder / f"{name}.beside", port))
        ends_at = monotonic() + minutes * 60
        while monotonic() < ends_at and watching.is_alive():
            stop.wait(1.0)
        with ClusterTruth(cluster) as truth:
            leader = truth.leader()
        assert leader is not None
        log = cluster.process(cluster.index_of(leader)).log.read_text("utf-8", "replace")
        runtime = cluster.get_json("/admin/v2/brokers/configuration/runtime")
        stop.set()
        watching.join()
    (folder / f"{name}.leader.log").write_text(log, "utf-8")
    if beside is not None:
        (folder / f"{name}.beside.json").write_bytes(msgspec.json.encode(beside.found))
    events = list(read_recording(out))
    elected = next(e for e in events if e.path == "/loadbalance/leader" and e.mtime_ms is not None)
    assert elected.mtime_ms is not None
    rounds = logged_rounds(log, elected.mtime_ms / 1000 + INTERVAL_S, events[-1].received_at_s)
    (folder / f"{name}.rounds.json").write_text(json.dumps([asdict(one) for one in rounds]))
    (folder / f"{name}.settings.json").write_text(json.dumps(_effective(settings, runtime)))
    return out


def _effective(settings: Mapping[str, object], runtime: Mapping[str, Any]) -> dict[str, str]:
    """Return the load balancer's settings as the brokers run with them."""
    ours = ("loadBalancer", "minUnload", "maxUnload", "defaultNumberOfNamespaceBundles")
    known = {key: value for key, value in runtime.items() if key.startswith(ours)}
    return {**known, **{key: str(value) for key, value in settings.items()}}


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Record the leader of real Pulsar clusters.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("series", nargs="+", choices=sorted(SERIES))
    parser.add_argument("--minutes", type=float, default=21.0)
    parser.add_argument("--beside", type=int, metavar="PORT", help="run Trimtab beside it")
    arguments = parser.parse_args()
    if (reason := why_not()) is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.series:
        path = record_series(name, arguments.folder, arguments.minutes, arguments.beside)
        rounds = json.loads((arguments.folder / f"{name}.rounds.json").read_text())
        selected = sum(len(one["selected"]) for one in rounds)
        sys.stderr.write(f"{path}: {len(rounds)} rounds, {selected} bundles selected\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
