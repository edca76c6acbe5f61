"""The command lines whose answers are frozen, by command.

A command line runs in a copy of :mod:`frozen_world` that its command has to itself, one after the
other, as text and, where the command has it, with ``--json``. ``{out}`` in it is a new path each
time. Every command needs one; those that wait or speak to a cluster are in :data:`NOT_ANSWERED`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import typer
from frozen_world import (
    BROKER,
    BUNDLE,
    HOTTEST,
    NAMESPACE,
    OTHER,
    PLANS,
    SMALL_BROKERS,
    SMALL_BUNDLES,
    WAITING,
)
from journal_entries import RUN
from pegasus_snapshots import NODES

from dashboard.cli.main import app

NOT_ANSWERED: Final[Mapping[str, str]] = {
    "demo": "serves pages and sandboxes until Ctrl-C",
    "dashboard": "serves pages until Ctrl-C",
    "collect": "speaks to clusters, until Ctrl-C",
    "worker": "speaks to clusters, until Ctrl-C",
    "sandbox": "serves a cluster until Ctrl-C",
    "sandbox-node": "speaks to a running sandbox",
    "leader record": "listens to ZooKeeper, until Ctrl-C",
    "history growth": "needs days, which the fixed moment does not have",
    "alerts test": "sends a message",
    "check": "speaks to every endpoint",
    "pipeline export": "the minutes of the fixed moment are in an hour that has not ended",
}
"""Commands of which only help and refusals are frozen, with the reason."""

BY: Final = ("primaries", "count", "disk", "qps", "cu")
STRATEGIES: Final = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")
PLACEMENTS: Final = (
    "LeastLongTermMessageRate",
    "LeastResourceUsageWithWeight",
    "RoundRobinBrokerSelector",
)
RELEASES: Final = ("2.8", "2.10", "3.0", "4.0", "4.2", "5.0")
PULSAR: Final = ("fleet", "small", "even", "extensible", "sick", "holes")
PEGASUS: Final = ("peg", "plain", "hurt")
_CLASS: Final = "org.apache.pulsar.broker.loadbalance.impl"
_SHED: Final = "loadBalancerLoadSheddingStrategy"
_MAX_NAME: Final = 90


@dataclass(frozen=True)
class Case:
    """One command line.

    Attributes:
        words: Its words, without the name of the program.
        file: Path of its frozen text.
        typed: Standard input.
        environment: Variables that it has.
    """

    words: tuple[str, ...]
    file: str
    typed: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A command line that needs more than its words; ``is_once``: not with ``--json`` as well."""

    text: str
    typed: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_once: bool = False


def _once(text: str) -> Line:
    return Line(text, is_once=True)


def _as(person: str, text: str, *, is_once: bool = False) -> Line:
    given = {"TRIMTAB_TOKEN_FILE": f"{person}.token", "TRIMTAB_CONFIG": "people.toml"}
    return Line(text, environment=given, is_once=is_once)


def commands() -> dict[str, Any]:
    """Return every command of the application by its words."""
    return dict(_below(typer.main.get_command(app), ""))


def _below(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _below(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def groups() -> list[str]:
    """Return every group of commands by its words, the program itself first."""
    return ["", *sorted({name.rpartition(" ")[0] for name in commands()} - {""})]


@cache
def cases() -> Mapping[str, tuple[Case, ...]]:
    """Return the cases by command."""
    found = {name: tuple(_cases_of(name, command)) for name, command in commands().items()}
    files = [case.file for several in found.values() for case in several]
    assert len(files) == len(set(files)), sorted({one for one in files if files.count(one) > 1})
    return found


def _cases_of(name: str, command: Any) -> Iterator[Case]:
    folder, number, again = name.replace(" ", "-"), 0, Counter[str]()
    has_json = any("--json" in param.opts for param in command.params)
    yield Case((*name.split(), "--help"), f"{folder}/help.txt")
    for given in LINES.get(name, ()):
        line = Line(given) if isinstance(given, str) else given
        for as_json in (False, True) if has_json and not line.is_once else (False,):
            number += "{out}" in line.text
            words = shlex.split(line.text.replace("{out}", f"out-{number}"))
            words += ["--json"] if as_json else []
            person = line.environment.get("TRIMTAB_TOKEN_FILE", "").partition(".")[0]
            file = _slug(f"{line.text.replace('{out}', 'out')} {person}")
            file = f"{folder}/{file or 'alone'}{'-json' if as_json else ''}"
            again[file] += 1
            file += f"-{again[file]}.txt" if again[file] > 1 else ".txt"
            yield Case((*name.split(), *words), file, line.typed, line.environment)


def _slug(text: str) -> str:
    for bundle, word in ((BUNDLE, "bundle"), (OTHER, "other"), (HOTTEST, "hottest")):
        text = text.replace(bundle, word)
    text = text.replace(f"{_CLASS}.", "").replace("loadBalancer", "")
    return re.sub(r"[^\w.=]+", "-", text).strip("-.")[:_MAX_NAME].strip("-.")


def _balancing() -> dict[str, list[str | Line]]:
    shed: list[str | Line] = [
        f"fleet --strategy {strategy} --release {release}"
        for strategy in STRATEGIES
        for release in RELEASES
    ]
    shed += [f"fleet --strategy {strategy} --rounds 12" for strategy in STRATEGIES]
    shed += [f"{name} --rounds 2" for name in PULSAR]
    shed += [
        "extensible --strategy TransferShedder",
        "small --strategy ThresholdShedder --strategy-only",
        "small --strategy ThresholdShedder --recently-unloaded recent.json",
        "small --strategy ThresholdShedder --set loadBalancerBrokerThresholdShedderPercentage=1",
        "small even",
        "prod",
        "group:eu",
        "tag:gold",
        "small --strategy ThresholdShedder --plan {out}",
        "fleet --strategy None",
        "fleet --strategy Transfer",
        "peg",
        "nowhere",
        "small --rounds 0",
        "small --set nosuch=1",
        "small --set loadBalancerEnabled",
        "small --release 1.0",
        "small --engine sparc",
        "small --recently-unloaded not.json",
        "group:none",
        "tag:red",
        _once("small --wide"),
        _once("small --jsn"),
        _once(""),
    ]
    place: list[str | Line] = [f"fleet --bundle {BUNDLE} --strategy {name}" for name in PLACEMENTS]
    place += [f"small --bundle {SMALL_BUNDLES[0]} --release {release}" for release in RELEASES]
    first = SMALL_BUNDLES[0]
    place += [
        f"extensible --bundle {first}",
        f"sick --bundle {first}",
        f"holes --bundle {first}",
        f"small --bundle {first} --no-filters",
        f"small --bundle {first} --non-persistent",
        f"small --bundle {first} --candidates {SMALL_BROKERS[0]},{SMALL_BROKERS[1]}",
        f"small --bundle {first} --candidates nobody:1",
        f"small even --bundle {first}",
        "fleet",
        "small --bundle acme/orders/0x0_0x1",
        "small --bundle nonsense",
        f"small --bundle {first} --strategy None",
    ]
    simulate: list[str | Line] = [f"small --shed {name}" for name in STRATEGIES]
    simulate += [f"small --place {name}" for name in PLACEMENTS]
    simulate += [
        "extensible",
        "sick --seed 3",
        "holes",
        f"small --fail-broker {SMALL_BROKERS[0]}",
        f"small --remove-broker {SMALL_BROKERS[1]} --rounds 5",
        "small --add-broker 10.1.0.9:8080",
        "small --fail-domain zone-a",
        "small --set loadBalancerBrokerThresholdShedderPercentage=1 --rounds 3",
        "small --fail-broker nobody:1",
        "small --shed None",
        "peg",
    ]
    explain: list[str | Line] = [
        f"fleet --set '{_SHED}=\"{_CLASS}.{strategy}\"'" for strategy in STRATEGIES
    ]
    explain += [f"{name}" for name in ("small", "extensible", "sick", "holes")]
    explain += [
        f"fleet --bundle {BUNDLE}",
        f"small --bundle {HOTTEST}",
        f"small --broker {SMALL_BROKERS[0]}",
        f"extensible --broker {SMALL_BROKERS[3]}",
        "small --release 3.0",
        "small --recently-unloaded recent.json",
        "small --broker nobody:1",
        "small --bundle nonsense",
        "peg",
    ]
    split: list[str | Line] = [f"fleet --bundle {BUNDLE}"]
    split += [
        f"small --bundle {HOTTEST} --algorithm {name}"
        for name in (
            "range_equally_divide",
            "topic_count_equally_divide",
            "flow_or_qps_equally_divide",
            "none",
        )
    ]
    split += [
        f"small --bundle {HOTTEST} --unload --reason hot",
        f"small --bundle {HOTTEST} --algorithm specified_positions_divide --positions 0x1",
        f"extensible --bundle {HOTTEST}",
        f"small --bundle {HOTTEST} --plan {{out}}",
        "small --bundle nonsense",
        "small",
    ]
    return {"shed": shed, "place": place, "simulate": simulate, "explain": explain, "split": split}


def _planning() -> dict[str, list[str | Line]]:
    return {
        "optimize": [
            "small",
            "sick",
            "extensible",
            "holes",
            "small --within 0.05",
            "small --max-moves 2",
            "small --relief 0.3",
            "small --measure usage",
            "small --exclude acme/*",
            "small --all-moves",
            "small --recently-unloaded recent.json",
            "small --release 3.0 --reason level",
            "small --plan {out}",
            "small --within 2",
            "peg",
        ],
        "unload": [
            f"fleet --bundle {BUNDLE} --bundle {OTHER}",
            f"fleet --bundle {BUNDLE} --to {BROKER}",
            f"extensible --bundle {SMALL_BUNDLES[0]}",
            f"sick --bundle {SMALL_BUNDLES[2]}",
            f"small --bundle {SMALL_BUNDLES[0]} --strategy RoundRobinBrokerSelector --release 3.0",
            f"prod --bundle {SMALL_BUNDLES[0]} --reason level",
            f"small --bundle {SMALL_BUNDLES[0]} --plan {{out}}",
            f"small --bundle {SMALL_BUNDLES[0]} --to nobody:1",
            "small --bundle acme/orders/0x0_0x1",
            "fleet",
        ],
        "set": [
            "prod loadBalancerSheddingEnabled=false loadBalancerSheddingIntervalMinutes=2",
            "prod --unset loadBalancerDebugModeEnabled",
            "prod loadBalancerSheddingEnabled=false --plan {out} --reason calm",
            "prod loadBalancerSheddingEnabled=maybe",
            "prod nosuch=1",
            "prod loadBalancerSheddingEnabled",
            "prod",
            "store only_move_primary=true",
            "small loadBalancerSheddingEnabled=false",
        ],
        "policy list": [
            *("prod", "quiet", "prod isolation", "prod resource_group"),
            *("prod nosuch", "store", "nowhere"),
        ],
        "policy set": [
            "prod anti_affinity acme/orders orders",
            "prod failure_domain zone-z 10.1.0.1:8080",
            'prod failure_domain zone-z \'{"brokers":["10.1.0.2:8080"]}\'',
            "prod resource_group silver '{\"publishRateInMsgs\":5}'",
            "prod namespace_resource_group acme/orders gold",
            "prod publish_rate acme/orders '{\"publishThrottlingRateInMsg\":100}'",
            "prod dispatch_rate acme/orders '{\"dispatchThrottlingRateInMsg\":100}'",
            "prod subscription_dispatch_rate acme/orders '{\"dispatchThrottlingRateInMsg\":100}'",
            "prod replicator_dispatch_rate acme/orders '{\"dispatchThrottlingRateInMsg\":100}'",
            "prod subscribe_rate acme/orders '{\"subscribeThrottlingRatePerConsumer\":3}'",
            "prod resource_quota default '{\"msgRateIn\":5}'",
            'prod isolation pin \'{"namespaces":["acme/.*"],"primary":["10.1.0.1:8080"]}\'',
            PLANS["policy-isolation"].removeprefix("policy set ") + " --reason pin",
            "prod anti_affinity acme/orders orders --plan {out}",
            "prod nosuch acme/orders 1",
            "prod resource_group silver 7",
            "prod publish_rate acme/nowhere {}",
        ],
        "policy delete": [
            "prod resource_group gold",
            "prod isolation pinned --unload --reason gone",
            "prod publish_rate acme/orders --plan {out}",
            "prod resource_group nosuch",
            "prod nosuch acme/orders",
        ],
        "preview": [
            *(f"plans/{name}.json --snapshot {_snapshot_of(line)}" for name, line in PLANS.items()),
            "plans/unload.json --snapshot small",
            "plans/unload.json --snapshot peg",
            "plans/nosuch.json --snapshot fleet",
            "not.json --snapshot fleet",
            "plans/unload.json",
        ],
        "apply": [
            _once("plans/policy.json --cluster prod --reason calm --yes --detach --json"),
            "plans/set.json --cluster prod --reason calm --yes --detach",
            "plans/set.json --cluster prod --reason calm",
            "plans/set.json --cluster prod --yes",
            "plans/set.json --cluster quiet --reason calm --yes",
            "plans/set.json --cluster nowhere --reason calm --yes",
            "plans/set.json --cluster prod --reason calm --yes --detach --pace 99/min",
            "plans/set.json --cluster prod --reason calm --yes --detach --pace fast",
            "plans/unload.json --cluster prod --reason calm --yes --detach",
            "not.json --cluster prod --reason calm --yes",
            _once("plans/set.json --cluster prod --reason calm --yes --detach --pause-balancer"),
            _as("ann", "plans/set.json --cluster prod --reason OPS-7 --yes"),
            _as("ann", "plans/set.json --cluster prod --reason calm --yes", is_once=True),
            _as("vic", "plans/set.json --cluster prod --reason OPS-7 --yes", is_once=True),
        ],
        "undo": [
            f"{RUN} --reason back --plan {{out}}",
            f"{RUN} --reason back --with-moves --plan {{out}}",
            f"{RUN} --reason back",
            "20261121-000000-nosuch --reason back --yes",
        ],
        "review": [
            str(WAITING),
            f"{RUN} --approve",
            f"{RUN}",
            _as("vic", f"{WAITING} --approve"),
            _as("ann", str(WAITING)),
            _as("ann", f"{WAITING} --approve"),
            _as("ben", f"{WAITING} --reject", is_once=True),
            _as("ben", f"{WAITING} --approve --comment fine", is_once=True),
            _as("ben", f"{WAITING} --reject --comment late"),
            _as("ben", f"{WAITING}"),
        ],
    }


def _snapshot_of(line: str) -> str:
    words = line.split()
    at = 2 if words[0] in ("policy", "pegasus") else 1
    return words[at]


def _reading() -> dict[str, list[str | Line]]:
    topic = f"persistent://{NAMESPACE}/orders-1"
    return {
        "health": [
            *(*PULSAR, *PEGASUS, "prod", "quiet", "store"),
            *(f"small --target {name}" for name in ("vivo", "tight", "transfer", "loose")),
            *("small peg", "group:eu", "tag:gold", "nowhere", "small --engine sparc"),
            _once("fleet --wide"),
            _once("small --config broken.toml"),
            _once("prod --config broken.toml"),
            _once("prod --config nosuch.toml"),
        ],
        "doctor": [
            *(*PULSAR, "prod"),
            "--conf broker.conf",
            "--helm values.yaml",
            "--conf broker.conf --release 3.0",
            "small --set loadBalancerSheddingIntervalMinutes=0",
            "small --release 2.8",
            "small --conf broker.conf",
            "--conf nosuch.conf",
            "",
            "peg",
        ],
        "owners": [
            *("small", "sick", "extensible", "holes", "quiet"),
            *(f"{name} --orphans" for name in PULSAR),
            *(f"{name} --namespace {NAMESPACE}" for name in ("small", "sick")),
            f"sick --namespace {NAMESPACE} --orphans",
            "small --namespace acme/nowhere",
            "small --namespace acme",
            "peg",
        ],
        "tenants": [*PULSAR, "prod", "peg"],
        "isolation": [
            *("small", "sick", "holes", "prod"),
            *(f"{name} --namespace {NAMESPACE}" for name in ("small", "sick", "fleet")),
            "sick --namespace globex/clicks",
            "small --namespace acme/nowhere",
            "peg",
        ],
        "lookup": [
            *(f"{name} {topic}" for name in PULSAR),
            f"small {topic.removeprefix('persistent://')}",
            f"small non-persistent://{NAMESPACE}/x",
            f"small {topic}-partition-3",
            "small x",
            "small acme/nowhere/x",
            "small a/b/c/d/e",
            f"peg {topic}",
        ],
        "topics": [
            "topics.csv --snapshot fleet",
            "topics.csv --snapshot small --top 3",
            "topics.csv --snapshot small --out {out}",
            "bad.csv --snapshot small",
            "nosuch.csv --snapshot small",
            "topics.csv --snapshot peg",
            "topics.csv",
        ],
        "drill": [
            *("small", "sick", "extensible", "holes", "peg", "plain", "hurt", "quiet", "store"),
            "small --no-domains",
            "small --no-brokers",
            "small --no-brokers --no-domains",
            f"small --only {SMALL_BROKERS[0]}",
            "small --only zone-a",
            "small --hot 0.3 --seed 2",
            "small --set loadBalancerBrokerOverloadedThresholdPercentage=50",
            "small --release 3.0",
            "small --out {out}",
            f"plain --only {NODES[0]}",
            "small --only nosuch",
            "plain --only nosuch",
            "plain --set loadBalancerEnabled=false",
            "small --hot 2",
            "small peg",
        ],
        "diagnose": [
            *("small", "extensible", "sick", "peg", "plain", "hurt", "prod"),
            f"small --broker {SMALL_BROKERS[0]}",
            f"small --bundle {HOTTEST}",
            f"plain --node {NODES[0]}",
            "plain --node 2.1",
            "plain --node temp.1",
            "prod --since 1h",
            "small --broker nobody:1",
            "plain --node nobody",
            "small --seconds 5000",
            "nowhere",
        ],
        "quota": [
            "--limit 100 --usage 10 --usage 50 --usage 30",
            "--limit 100 --usage 10,50,30 --formula published",
            "--limit -1 --usage 10,50",
            "--limit 100 --steps '5:10,50;5:40,40'",
            "--limit 100 --steps 3:10,50 --period 30 --tolerance 10",
            "--limit 100 --usage 10,50 --steps 3:10,50",
            "--snapshot prod --group gold",
            "--snapshot sick --group gold --of publish_bytes",
            "--snapshot sick --group nosuch",
            "--limit 100 --usage x",
            "--limit 100 --usage 10 --formula own",
            "",
        ],
        "capture": [
            *("prod --out {out}", "store --out {out}", "nowhere --out {out}", "prod --out small"),
            "prod",
        ],
        "import": [
            "b-0_8080.json b-1_8080.json b-2_8080.json --out {out}",
            "dump.jsonl --out {out} --cluster prod",
            "dump.jsonl topics.csv --out {out}",
            "nosuch.json --out {out}",
            "dump.jsonl --out small",
            "not.json --out {out}",
        ],
        "import-zk": [
            "dump.jsonl --out {out}",
            "idle.jsonl --out {out} --cluster idle",
            "topics.csv --out {out}",
            "nosuch.jsonl --out {out}",
        ],
    }


def _advice() -> dict[str, list[str | Line]]:
    return {
        "advise bundles": [
            f"--snapshot fleet --namespace {NAMESPACE}",
            "--brokers 12 --topics 5000 --rate 80000",
            "--brokers 3 --topics 10 --clients 100 --throughput 1000000 --within 0.1",
            "--brokers 3 --topics 100000 --max-bundles 16",
            "--snapshot small --namespace acme/nowhere",
            "--snapshot peg --namespace a/b",
            "",
        ],
        "advise partitions": [
            "a/b/c --partitions 16 --bundles 32",
            f"{NAMESPACE}/paid --partitions 8 --snapshot small",
            f"{NAMESPACE}/paid --partitions 8 --snapshot small --wanted 2 --plan {{out}}",
            "a/b/c --partitions 0 --bundles 3",
            "a/b/c --partitions 4",
            "a/b/c --partitions 64 --bundles 4 --wanted 1 --max-bundles 8",
        ],
        "advise lookups": [
            f"fleet --namespace {NAMESPACE}",
            f"small --namespace {NAMESPACE} --pace 2",
            "small --namespace acme/nowhere",
            "small",
        ],
        "advise queue": [
            "--partitions 8",
            "--partitions 32 --max-pending 1000 --rate 5000",
            "--partitions 8 --max-pending-across 100 --slow 0.5 --silent 2",
            "--partitions 8 --routing SinglePartition --send-timeout-s 0",
            "--partitions 8 --routing Own",
            "--partitions 0",
        ],
        "advise compaction": ["--live 0.3", "--live 0.9", "--live 0.1 --minor 0.3", "--live 2"],
        "advise ledger": [
            "--rate 1000 --throughput 1000000",
            "--rate 200 --throughput 4000000 --age 5 --entries 1000 --size 5000",
            f"--snapshot small --namespace {NAMESPACE}",
            "--rate 1 --throughput 1 --max-minutes 5 --min-minutes 9",
            "",
        ],
        "advise retention": [
            "--throughput 1000000",
            "--throughput 4000000 --minutes 60 --megabytes 100 --ttl 600 --consumed-after 5",
            "--throughput 4000000 --minutes -1 --megabytes -1 --quota 10",
            f"--snapshot small --namespace {NAMESPACE}",
            "",
        ],
        "advise disks": ["fleet", "small --directories 8", "holes", "peg"],
    }


def _recorded() -> dict[str, list[str | Line]]:
    bounds = "--from 2026-11-21T11:30:00Z --to 2026-11-21T12:00:00Z"
    return {
        "history minutes": [
            *("prod", "store", f"prod {bounds}", "prod --from -20min", "nowhere", "quiet"),
            *("prod --from later", "prod --history nosuch", "prod --from -1min --to -1h"),
        ],
        "history events": [
            *("prod", "store", f"prod {bounds}", "prod --kind move", "prod --by cluster"),
            *("prod --by trimtab", "prod --kind nosuch", "prod --by nosuch", "nowhere"),
        ],
        "history trends": [
            *("prod", "store", "--by day", "prod --by minute --subject brokers --from -10min"),
            "store --subject nodes",
            *(
                "prod --subject bundles --by day",
                "store --out {out}",
                "prod --by week",
                "prod --subject topics",
                "nowhere",
            ),
        ],
        "history load": [
            *("prod", "prod broker nosuch", "prod tenant", "prod cluster x", "prod --by weeks"),
            *("prod --from -2h --compare week", "prod --compare year", "nowhere"),
        ],
        "history growth": ["prod", "store", "prod --from -60d --to -40d", "nowhere"],
        "history fleet": ["", "prod", "--from -2h", "nowhere"],
        "history flaps": [
            *("", "prod", "store", "prod --side 5 --settle 1", f"prod {bounds}"),
            *("prod --out {out}", "nowhere", "prod --settle 9 --side 5"),
        ],
        "history agreement": [
            *("prod", "prod --replay", "prod --replay --strategy ThresholdShedder"),
            *("prod --replay --minute-s 300", "prod --strategy None", "store", "nowhere"),
        ],
        "history snapshot": [
            *("prod --at 2026-11-21T11:50:00Z --out {out}", "store --at -10s --out {out}"),
            *("prod --at 2020-01-01T00:00:00Z --out {out}", "nowhere --at -1min --out {out}"),
        ],
        "history export": [
            *("prod --out {out}", f"prod {bounds} --out {{out}}", "nowhere --out {out}"),
            "small --out {out}",
        ],
        "history import": [
            *("small --as copied", "small --as copied", "peg", "topics.csv", "nosuch"),
            "state/snapshots/prod --as again",
        ],
        "history repair": ["", "prod", "prod --apply", "nowhere"],
        "history compact": ["", "prod", "nowhere"],
        "pipeline status": ["", "prod", "nowhere"],
        "pipeline run": ["", "prod", "nowhere"],
        "pipeline backfill": ["prod", f"prod {bounds}", "prod --from later", "nowhere"],
        "pipeline export": [
            *("prod --out {out}.csv", "prod --tier weeks --out {out}.csv", "prod --out {out}.xls"),
            "nowhere --out {out}.csv",
        ],
        "pipeline verify": ["", "prod --hours 2 --seed 3", "prod --hours 0", "nowhere"],
        "backtest": [
            "--grid grid.json --out {out}",
            "--grid grid.json --out {out} --plan plan-{out} --reason calm",
            "--grid grid.json --out {out} --cluster store",
            "--grid wrong.json --out {out}",
            "--grid not.json --out {out}",
            "--grid grid.json --out small",
            "--grid grid.json",
        ],
        "leader next": ["prod", "store", "nowhere"],
        "leader replay": [
            f"leader.jsonl.gz --strategy {name} --from {_FIRST} --to {_LAST}"
            for name in ("ThresholdShedder", "UniformLoadShedder")
        ]
        + [
            "leader.jsonl.gz --strategy ThresholdShedder --from 9 --to 1",
            "leader.jsonl.gz --strategy None",
            "nosuch.gz --strategy ThresholdShedder",
            "topics.csv --strategy ThresholdShedder",
        ],
    }


def _kept() -> dict[str, list[str | Line]]:
    return {
        "runs": [
            *("", str(RUN), "20261121-140000-00dead", "--cluster prod --last 1", "--verify"),
            *("--export {out}", "--verify --expect 0000", "nosuch", "--cluster nowhere"),
            *(f"{RUN} --stop --reason enough", "20261121-130000-fedcba --pause"),
            Line("20261121-130000-fedcba --pause --reason lunch", is_once=True),
            Line("20261121-130000-fedcba --resume --reason go", is_once=True),
            "20261121-130000-fedcba",
            _once("--verify --anchors nosuch"),
        ],
        "audit": [
            *("", "--last 3", "--who ann", "--cluster prod --kind 'step started'"),
            *(f"--run {RUN} --last 2", "--from 2026-11-21T12:00:05Z --to 2026-11-21T12:00:08Z"),
            *("--export {out}.csv", "--export {out}.jsonl", "--export {out}.xml"),
            *("--kind gone", "--who nobody", "--from later"),
        ],
        "archive": [
            _once("{out} --before 2026-08-01 --reason OPS-7 --yes"),
            _once("{out} --reason OPS-7 --yes --json"),
            *("{out} --before 2026-11-21T12:00:30Z --reason OPS-7 --yes", "{out} --reason x --yes"),
            *("{out} --before 2026-07-01 --reason OPS-7", "{out} --yes", "topics.csv --yes"),
        ],
        "alerts list": [""],
        "alerts past": ["prod", "prod --from -1h --to -5min", "quiet", "nowhere", "prod --from x"],
        "alerts silence": [
            *(
                "uneven --cluster prod --for 2h --reason test",
                "* --reason all",
                "nosuch --reason x",
            ),
            *("uneven", "uneven --for soon --reason x"),
        ],
        "alerts unsilence": ["1", "x"],
        "alerts limits": [""],
        "alerts set": [
            "uneven --threshold 30 --minutes 15 --reason test",
            "uneven --threshold 30 --minutes 15 --reason test --yes",
            "uneven --reset --reason test --yes",
            "nosuch --threshold 30 --reason test",
            "uneven --threshold -3 --reason test",
            "uneven --reason test",
            "uneven --threshold 30",
        ],
        "jobs": [
            *("list", f"show {_JOBS[0]}", f"show {_JOBS[1]}", f"stop {_JOBS[0]}", "list"),
            *("show nosuch", "show", "list x", "lists"),
        ],
        "metrics": ["", "--config broken.toml"],
        "backup": ["{out}", "small"],
        "restore": [
            *("kept", _once("kept --config other.toml")),
            *(_once("kept --config another.toml --json"), "kept --config other.toml"),
            *("small", "nosuch"),
        ],
        "users list": ["", _as("ann", "")],
        "users add": [
            Line("kim --group sre --group ops", typed="correct horse battery\n"),
            Line(
                "kim",
                typed="another horse battery\n",
                environment={"TRIMTAB_CONFIG": "people.toml"},
            ),
            Line("lee", typed="short\n"),
            Line("lou"),
            Line("k/im", typed="correct horse battery\n"),
        ],
        "users remove": ["kim", _as("ann", "vic"), "vic --config people.toml"],
        "tokens list": ["", _as("ann", "")],
        "tokens create": ["kim --days 30", "kim --days 400", "kim --group sre", "k/im"],
        "tokens revoke": ["nosuch", _as("ann", _TOKEN)],
        "whoami": ["", *(_as(name, "") for name in ("ann", "vic"))],
        "completion": ["bash", "zsh", "fish", "csh"],
    }


def _pegasus() -> dict[str, list[str | Line]]:
    found: dict[str, list[str | Line]] = {
        f"pegasus {name}": [*PEGASUS, "store", "small", "nowhere", "prod"]
        for name in ("health", "nodes", "tables")
    }
    move = f"--from {NODES[0]} --to {NODES[2]}"
    return found | {
        "pegasus balance": [
            *(*PEGASUS, "store", "peg --rounds 0", "peg --rounds 3 --seed 2"),
            *("peg --policy app", "peg --policy cluster --rounds 0"),
            *("peg --set only_move_primary=true", "peg --set nosuch=1", "small", "nowhere"),
            *("peg --policy own", "not.json", "topics.csv"),
        ],
        "pegasus level": [
            *(*PEGASUS, "store", "plain set lively", "plain set steady", "plain set stopped"),
            *("plain set nosuch", "plain get", "plain set lively --plan {out}", "small"),
            *("plain set lively --apply", "plain set lively --apply --reason x --yes"),
            "store set lively --apply --reason x --yes --detach",
        ],
        "pegasus move": [
            f"plain temp.1 move_pri {move}",
            f"plain temp.1 move_pri --from {NODES[0]} --to {NODES[1]}",
            f"plain 2.1 copy_pri {move} --steady",
            f"plain 2.1 copy_sec --from {NODES[1]} --to {NODES[2]} --plan {{out}}",
            f"plain 2.9 move_pri {move}",
            f"plain temp.1 nosuch {move}",
            f"plain nosuch.1 move_pri {move}",
            f"plain temp.1 move_pri --from {NODES[1]} --to {NODES[2]}",
            "plain temp.1 move_pri --from nobody:1 --to nobody:2",
        ],
        "pegasus propose": [
            f"plain 2.0 ct_remove --node {NODES[1]}",
            f"plain 2.0 ADD_SECONDARY --node {NODES[2]}",
            f"plain 2.0 DOWNGRADE_TO_INACTIVE --node {NODES[1]}",
            f"plain 2.0 ASSIGN_PRIMARY --node {NODES[1]}",
            f"hurt 2.4 ASSIGN_PRIMARY --node {NODES[1]}",
            f"hurt 2.0 REMOVE --node {NODES[0]}",
            f"plain 2.0 nosuch --node {NODES[1]}",
            f"plain 2.0 REMOVE --node {NODES[1]} --plan {{out}}",
        ],
        "pegasus migrate": [
            *(f"plain {NODES[0]}", f"plain {NODES[2]}", f"hurt {NODES[0]}", "plain nobody:1"),
            *(f"plain {NODES[0]} --plan {{out}}", "store node1:34801"),
        ],
        "pegasus drain": [
            *(f"plain {NODES[0]}", f"plain {NODES[0]} {NODES[1]}", f"hurt {NODES[0]}"),
            *(f"plain {NODES[0]} --max-under-replicated 1", "plain nobody:1"),
            f"plain {NODES[0]} --plan {{out}}",
        ],
        "pegasus offline": [
            *(f"plain {NODES[0]} --rate 20", f"plain {NODES[3]} --rate 0", f"hurt {NODES[0]}"),
            *("plain nobody:1", f"plain {NODES[0]} --plan {{out}}"),
        ],
        "pegasus rolling-update": [
            *("plain", f"plain {NODES[1]} {NODES[0]}", "hurt", "plain nobody:1"),
            "plain --plan {out}",
        ],
        "pegasus rebalance": [
            *("plain", "plain --only-move-primary", "peg --rate 0", "hurt", "plain --plan {out}"),
        ],
        "pegasus even": [
            *(f"{name} --by {by}" for name in ("store", "plain") for by in BY),
            *("peg --by count --within 1 --moves 3", "peg --by disk --no-copy", "hurt"),
            *("store --by count --all-moves", "peg --by size", "plain --plan {out}", "small"),
        ],
        "pegasus set": [
            *("plain only_move_primary true", "plain assign_secondary_black_list clear"),
            *("plain nosuch 1", "plain only_move_primary maybe", f"plain {_RATE} 5"),
            f"plain {_RATE} 5 --node {NODES[0]}",
            "plain only_move_primary true --plan {out}",
            "plain only_move_primary true --apply --reason x --yes",
        ],
    }


_RATE: Final = "nfs.max_copy_rate_megabytes_per_disk"
_FIRST: Final = 1_795_411_910
_LAST: Final = _FIRST + 400
_JOBS: Final = ("20261121T115500000-6b86b2", "20261121T115600000-d4735e")
_TOKEN: Final = "6b86b273ff34"


def _waiting() -> dict[str, list[str | Line]]:
    """Refusals of the commands in :data:`NOT_ANSWERED`."""
    return {
        "demo": ["--brokers 0", "--port 0"],
        "dashboard": ["--config broken.toml", "--config nosuch.toml"],
        "collect": ["nowhere", "--every soon", "--config broken.toml"],
        "worker": ["nowhere", "--config broken.toml"],
        "sandbox": ["--brokers 0", "--kind own", "--release 1.0", "--dynamic x"],
        "sandbox-node": ["", "localhost:1 nosuch", "--config broken.toml"],
        "check": ["--config broken.toml", "--config nosuch.toml", "--config topics.csv"],
        "leader record": ["nowhere --out {out}", "prod", "store --out {out}"],
        "alerts test": ["nosuch"],
    }


PARTS: Final[Mapping[str, Mapping[str, list[str | Line]]]] = {
    "balancing": _balancing(),
    "planning": _planning(),
    "reading": _reading(),
    "advice": _advice(),
    "recorded": _recorded(),
    "kept": _kept(),
    "pegasus": _pegasus(),
    "waiting": _waiting(),
}
"""Command lines by part and command, without the words of the command."""

LINES: Final[Mapping[str, list[str | Line]]] = {
    name: lines for part in PARTS.values() for name, lines in part.items()
}
"""Command lines by command."""
