"""A small world for the frozen texts: snapshots, a state folder and plans at one fixed moment.

Everything in it follows from the builders of the tests. Clusters of the configuration answer with
a saved snapshot, the clock stands still, and names that are drawn at random are counted.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import io
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest import mock

import msgspec
import pyarrow as pa
import time_machine
from fleet_builder import NOON, make_history, make_snapshot
from fleet_edit import edited, with_manifest, with_policies, with_settings
from history_rows import recorded, store_in
from journal_entries import (
    ONE_OF_EACH,
    RUN,
    SHEDDING,
    begun,
    claimed,
    ended,
    plan_of,
    record_of,
    requested,
)
from pegasus_snapshots import NODES, generated, part_row, snapshot_of, table_row, whole
from signed_requests import as_requested

from connectors.alerts.store import AlertStore
from connectors.config.access import AccessConfig
from connectors.config.model import TrimtabConfig
from connectors.jobs.queue import queue_of
from connectors.journal.engine import Database
from connectors.journal.journal import SqlJournal
from core.actions.events import (
    ControlRequested,
    ExternalMove,
    RunEnded,
    RunRequested,
    SettingChanged,
    SettingRestored,
    SettingSaved,
)
from core.actions.model import RunId
from core.alerts.model import Alert, AlertKey
from core.plan.model import Plan, sealed
from core.pulsar.leader.prediction import (
    Forecast,
    LeadAccuracy,
    PredictedBundle,
    RoundPrediction,
    ShareBin,
)
from core.pulsar.steps.unload import UnloadBundle
from core.snapshot.model import PulsarSnapshot
from core.snapshot.pegasus import PegasusSnapshot
from core.snapshot.store import SnapshotStore, Storable, save_snapshot
from dashboard import services
from dashboard.cli.main import run
from dashboard.services import pulsar

MOMENT = NOON + timedelta(seconds=20)
_DIGITS: Final = 9
_Snapshot = TypeVar("_Snapshot", PulsarSnapshot, PegasusSnapshot)


def rounded(snapshot: _Snapshot) -> _Snapshot:
    """Return a snapshot of numbers that no processor computes in another last bit."""
    tables = {}
    for name, table in snapshot.tables.items():
        columns = list(table.columns)
        for at, column in enumerate(table.schema):
            if pa.types.is_floating(column.type):
                values = [
                    None if one is None else float(f"{one:.{_DIGITS}g}")
                    for one in table[column.name].to_pylist()
                ]
                columns[at] = pa.array(values, column.type)
        tables[name] = pa.Table.from_arrays(columns, schema=table.schema)
    return type(snapshot).build(snapshot.manifest, tables)


def pulsar_of(**options: Any) -> PulsarSnapshot:
    """Return a generated fleet, see :func:`fleet_builder.make_snapshot`."""
    return rounded(make_snapshot(**options))


def pegasus_of(*sizes: int, **options: Any) -> PegasusSnapshot:
    """Return a generated cluster, see :func:`pegasus_snapshots.generated`."""
    return rounded(generated(*sizes, **({"taken_at": NOON} | options)))


FLEET, SMALL = pulsar_of(), pulsar_of(brokers=4, bundles=60)
BUNDLES = tuple(FLEET.bundles["bundle"].to_pylist())
BUNDLE, OTHER = BUNDLES[0], BUNDLES[200]
NAMESPACE = FLEET.bundles["namespace"][0].as_py()
BROKER = FLEET.brokers["broker"][9].as_py()
SMALL_BUNDLES = tuple(SMALL.bundles["bundle"].to_pylist())
SMALL_BROKERS = tuple(SMALL.brokers["broker"].to_pylist())
HOTTEST = max(
    (row for row in SMALL.bundles.to_pylist() if not row["is_broker_bound"]),
    key=lambda row: row["msg_throughput_in"],
)["bundle"]
OLDEST = RunId("20260724-120000-0ddba0")
OLD = RunId("20260922-120000-0ddba1")
UNDONE = RunId("20261121-130000-fedcba")
DAMAGED = RunId("20261121-140000-00dead")
WAITING = RunId("20261121-150000-0a0a0a")
_TOKEN_LENGTH = 43
DIGITS = hashlib.sha256(b"frozen").hexdigest()

PROD = pulsar_of(brokers=4, bundles=24, cluster="prod")
MOVED = tuple(
    row
    for row in PROD.bundles.to_pylist()
    if row["owner"] == SMALL_BROKERS[0] and not row["is_broker_bound"]
)[:3]
LANDED = (SMALL_BROKERS[2], SMALL_BROKERS[3])


def _plan(count: int) -> Plan:
    steps = (
        UnloadBundle(
            bundle=row["bundle"],
            owner=row["owner"],
            destination=LANDED[0],
            predicted={LANDED[0]: 0.75, LANDED[1]: 0.25},
        )
        for row in MOVED[:count]
    )
    return sealed(replace(plan_of(count), steps=tuple(steps)))


CONFIG = """\
state_dir = "state"
[access]
key_file = "key/installation.key"
[audit]
keep_days = 30
anchor_file = "anchors.jsonl"
[[alerts.targets]]
name = "on-call"
url_file = "target.url"
[[clusters]]
name = "prod"
zookeeper = "127.0.0.1:1"
admin_urls = ["http://127.0.0.1:1"]
environment = "production"
group = "eu"
tags = ["gold"]
read_only = false
[[clusters]]
name = "quiet"
zookeeper = "127.0.0.1:1"
read_only = true
exclusions = ["acme/*"]
[clusters.labels]
"10.1.0.1:8080" = "pod-1 zone-a"
[[clusters]]
name = "store"
kind = "pegasus"
meta_servers = ["127.0.0.1:1"]
group = "eu"
tags = ["red"]
read_only = false
"""

PEOPLE = """\
state_dir = "people"
[access]
key_file = "key/installation.key"
sign_in = "users"
[[access.grants]]
role = "operator"
people = ["ann", "ben"]
[[access.grants]]
role = "viewer"
people = ["vic"]
clusters = ["quiet"]
[[access.grants]]
role = "operator"
people = ["vic"]
clusters = ["prod"]
scope = ["acme"]
[[clusters]]
name = "prod"
zookeeper = "127.0.0.1:1"
read_only = false
[clusters.approval]
needed = "always"
ticket = "OPS-[0-9]+"
within_min = 240
[[clusters]]
name = "quiet"
zookeeper = "127.0.0.1:1"
"""

POLICIES = (
    (
        "isolation",
        "pinned",
        json.dumps(
            {
                "namespaces": ["acme/.*"],
                "primary": [r"10\.1\.0\.1"],
                "secondary": [r"10\.1\.0\.2"],
                "auto_failover_policy": {
                    "policy_type": "min_available",
                    "parameters": {"min_limit": "1", "usage_threshold": "80"},
                },
            }
        ),
    ),
    ("resource_group", "gold", '{"publishRateInMsgs": 100, "publishRateInBytes": 1000000}'),
    ("failure_domain", "zone-a", '{"brokers": ["10.1.0.1:8080", "10.1.0.4:8080"]}'),
    ("publish_rate", "acme/orders", '{"publishThrottlingRateInMsg": 500}'),
)


@dataclass
class Result:
    """What a command line answered."""

    code: int
    out: str
    err: str


def snapshots() -> Mapping[str, Storable]:
    """Return the snapshots that are directories of the world, by name."""
    sick = edited(
        SMALL,
        "bundles",
        {
            SMALL_BUNDLES[2]: {"owner": None, "owner_source": None},
            SMALL_BUNDLES[5]: {"owner": None, "owner_source": None},
            SMALL_BUNDLES[7]: {"reported_by": SMALL_BROKERS[3]},
        },
    )
    content = whole([part_row(2, at, NODES[0], [NODES[1], NODES[3]]) for at in range(4)])
    content["nodes"][0]["started_at"] = "2026-11-20 08:00:00"
    parts = [part_row(2, at, NODES[0], [NODES[1]][: at % 2]) for at in range(4)]
    parts.append(part_row(2, 4, None, [NODES[1]]))
    return {
        "fleet": FLEET,
        "small": SMALL,
        "even": with_settings(
            FLEET, (None, "loadBalancerDistributeBundlesEvenlyEnabled", "false", "dynamic")
        ),
        "extensible": with_manifest(SMALL, load_manager="extensible"),
        "peg": pegasus_of(6, 16, 5),
        "sick": with_policies(sick, *POLICIES),
        "holes": pulsar_of(brokers=4, bundles=60, missing=("policies", "settings")),
        "plain": snapshot_of(content, taken_at=NOON),
        "hurt": snapshot_of(
            whole(parts, tables=[table_row(2, "temp", 5)], dead=[NODES[2]]), taken_at=NOON
        ),
    }


def captured() -> Mapping[str, Storable]:
    """Return what clusters of the configuration answer with."""
    landed = zip(MOVED, LANDED, strict=False)
    moved = edited(PROD, "bundles", {row["bundle"]: {"owner": at} for row, at in landed})
    quiet = pulsar_of(brokers=4, bundles=24, cluster="quiet", seed=3)
    return {
        "prod": with_policies(moved, *POLICIES),
        "quiet": quiet,
        "store": pegasus_of(2, 8, 4, cluster="store"),
    }


@contextlib.contextmanager
def still() -> Iterator[None]:
    """Let the clocks stand, count what is drawn at random, and answer for every cluster."""
    drawn = iter(range(1, 1 << 20))

    def hexadecimal(count: int = 16) -> str:
        return hashlib.sha256(str(next(drawn)).encode()).hexdigest()[: 2 * count]

    answers = captured()
    with contextlib.ExitStack() as stack:
        stack.enter_context(time_machine.travel(MOMENT, tick=False))
        for place, name, value in (
            (secrets, "token_hex", hexadecimal),
            (secrets, "token_urlsafe", lambda count: hexadecimal(count)[:_TOKEN_LENGTH]),
            (secrets, "randbits", lambda _: next(drawn)),
            (socket, "gethostname", lambda: "host"),
            (getpass, "getuser", lambda: "ops"),
            (services, "snapshot_of", lambda _, cluster: answers[cluster.name]),
            (pulsar, "capture", lambda cluster: answers[cluster.name]),
            (time, "perf_counter", lambda: 0.0),  # no budget ends, nothing takes time
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        yield


@contextlib.contextmanager
def inside(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """Work in a folder, with nothing of the caller's environment that changes answers."""
    before, place = dict(os.environ), Path.cwd()
    for name in [one for one in os.environ if one.startswith("TRIMTAB_")]:
        del os.environ[name]
    own = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "XDG_DATA_HOME": str(folder / "data")}
    os.environ.update(own | dict(environment or {}))
    os.chdir(folder)
    forget()
    try:
        yield
    finally:
        forget()
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)


def forget() -> None:
    """Close what the composition root keeps open between two command lines."""
    for cached in (services._journal_at, services._runbook_at):
        cached.cache_clear()


def command(words: list[str], typed: str = "") -> Result:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.StringIO(typed)),
    ):
        code = run(words)
    return Result(code, out.getvalue(), err.getvalue())


def make(folder: Path) -> None:
    """Write the world into an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with still(), inside(folder):
        for name, snapshot in snapshots().items():
            save_snapshot(snapshot, folder / name)
        _files(folder)
        _state(folder)
        _people(folder)
        _plans()


def _files(folder: Path) -> None:
    lines = ["topic"] + [f"persistent://{NAMESPACE}/topic-{number}" for number in range(200)]
    (folder / "topics.csv").write_text("\n".join(lines) + "\n")
    (folder / "bad.csv").write_text("name\nx\n")
    (folder / "recent.json").write_text(json.dumps(list(SMALL_BUNDLES[:20])))
    (folder / "broker.conf").write_text(
        "loadBalancerEnabled=true\nloadBalancerSheddingEnabled=maybe\n"
        "loadBalancerLoadSheddingStrategy=org.apache.pulsar.broker.loadbalance.impl.AvgShedder\n"
        "loadBalancerBrokerThresholdShedderPercentage=200\nnoSuchSetting=1\n"
    )
    (folder / "values.yaml").write_text(
        "broker:\n  configData:\n    loadBalancerSheddingIntervalMinutes: 0\n"
        "    PULSAR_PREFIX_loadBalancerEnabled: 'false'\n"
    )
    (folder / "grid.json").write_text(
        json.dumps(
            {
                "clusters": ["prod"],
                "shedding": ["recorded", "ThresholdShedder"],
                "settings": {"loadBalancerBrokerThresholdShedderPercentage": [5, 10]},
                "seeds": [1],
            }
        )
    )
    (folder / "wrong.json").write_text('{"shedding": ["None"]}')
    (folder / "not.json").write_text("{")
    fixtures = Path(__file__).parents[1] / "fixtures"
    shutil.copy(fixtures / "reports" / "serving" / "iadmin.jsonl", folder / "dump.jsonl")
    shutil.copy(fixtures / "pulsar" / "zk-dump-idle.jsonl", folder / "idle.jsonl")
    shutil.copy(fixtures / "pulsar" / "leader" / "threshold.jsonl.gz", folder / "leader.jsonl.gz")
    for line in (folder / "dump.jsonl").read_text().splitlines():
        entry = json.loads(line)
        name = entry["path"].rpartition("/")[2].replace(":", "_")
        (folder / f"{name}.json").write_text(json.dumps(entry["value"], indent=2))
    (folder / "trimtab.toml").write_text(CONFIG)
    (folder / "people.toml").write_text(PEOPLE)
    for name in ("other", "another"):
        (folder / f"{name}.toml").write_text(
            f'state_dir = "{name}"\n[access]\nkey_file = "{name}.key"\n'
        )
    (folder / "broken.toml").write_text('state_dir = "state"\nno_such_setting = 1\n')
    (folder / "target.url").write_text("json://127.0.0.1:1/hook")
    (folder / "key").mkdir(mode=0o700)
    key = folder / "key" / "installation.key"
    key.write_text(DIGITS + "\n")
    key.chmod(0o600)


EVENTS = (
    requested(plan=_plan(3)),
    claimed(),
    SettingSaved(key=SHEDDING, before=None, during="false"),
    SettingChanged(key=SHEDDING),
    begun(0, MOVED[0]["owner"]),
    ended(0, broker=LANDED[0]),
    begun(1, MOVED[1]["owner"]),
    ended(1, "DONE", "landed_elsewhere", LANDED[1]),
    ControlRequested(control="stop", reason="enough"),
    ended(2, "SKIPPED", "stopped", None),
    ExternalMove(
        subject="x/y/z", source="b1", destination="b2", sentence="x/y/z moved, not by us."
    ),
    SettingRestored(key=SHEDDING, result="restored", sentence="It was put back."),
    RunEnded(state="STOPPED", sentence="Stopped as ann asked."),
    ONE_OF_EACH[-1],
)
"""A whole run, as a worker writes it."""

OLD_EVENTS = (
    requested(plan=_plan(1)),
    claimed(),
    begun(0, MOVED[0]["owner"]),
    ended(0, broker=LANDED[0]),
    RunEnded(state="DONE", sentence="All steps are done."),
)
_LONG_AGO_S = -60 * 86_400


def tell(folder: Path, journal: SqlJournal) -> None:
    """Write an old run, a whole one, its undo and a damaged one into a journal."""
    access = AccessConfig(key_file=folder / "key" / "installation.key")
    runs = (
        (OLDEST, "prod", 2 * _LONG_AGO_S, "ann", OLD_EVENTS),
        (OLD, "prod", _LONG_AGO_S, "ann", OLD_EVENTS),
        (RUN, "prod", 0, "ann", EVENTS),
        (UNDONE, "prod", 60, "ben", (requested(1, undoes=RUN, reason="wrong idea"),)),
        (DAMAGED, "old", 90, "ann", (requested(1), begun(0))),
    )
    for run_id, cluster, first, actor, events in runs:
        for second, event in enumerate(events):
            is_asked = isinstance(event, RunRequested)
            record = record_of(
                event,
                run_id=run_id,
                cluster=cluster,
                second=first + second,
                actor=actor if is_asked else None,
            )
            journal.append(as_requested(record, access))


FORECAST = Forecast(
    cluster="prod",
    written_at_s=MOMENT.timestamp() - 5,
    observed_since_s=NOON.timestamp() - 3_600,
    status="watching",
    next_round=RoundPrediction(
        at_s=MOMENT.timestamp() + 30,
        made_at_s=MOMENT.timestamp() - 5,
        leader=SMALL_BROKERS[0],
        strategy="ThresholdShedder",
        bundles=(
            PredictedBundle(
                bundle=MOVED[0]["bundle"],
                broker=SMALL_BROKERS[0],
                share=0.75,
                destinations={LANDED[0]: 0.5, LANDED[1]: 0.5},
            ),
        ),
        label="success",
        reason="Overloaded",
        sentence=f"{SMALL_BROKERS[0]} is over the threshold.",
        warnings=("The averages are 20 s old.",),
    ),
    accuracy=(LeadAccuracy(lead_s=10.0, rounds=8, exact=6, active=3, active_exact=2, hits=5),),
    calibration=(ShareBin(low=0.5, high=0.75, shown=4, came_true=3, share_total=2.5),),
    unknown=("The leader's own memory.",),
)


def _state(folder: Path) -> None:
    state = folder / "state"
    state.mkdir(mode=0o700)
    with contextlib.closing(SqlJournal(f"sqlite:///{state / 'journal.db'}")) as journal:
        tell(folder, journal)
    with contextlib.closing(Database(f"sqlite:///{state / 'journal.db'}")) as database:
        store = AlertStore(database)
        firing = {
            key: Alert(
                key=key,
                state=kind,
                severity="warning",
                sentence=f"{key.cluster}: {key.rule}.",
                hint="Look at it.",
                since=NOON - timedelta(minutes=40),
                told_at=None,
                measured="34%",
                limit="20%",
            )
            for key, kind in (
                (AlertKey("uneven", "prod", ""), "firing"),
                (AlertKey("stale", "quiet", ""), "pending"),
            )
        }
        store.save({}, firing, NOON - timedelta(minutes=10))
    saved = SnapshotStore(state / "snapshots")
    history = store_in(state)
    fleet = make_history(8, brokers=4, bundles=16, cluster="prod", every_minutes=5.0)
    minutes = [rounded(one) for one in fleet]
    for snapshot in minutes[-3:]:
        saved.put(snapshot)
    recorded(history, minutes, "prod")
    peg = [
        pegasus_of(2, 8, 4, cluster="store", taken_at=NOON - timedelta(minutes=ago), seed=1 + ago)
        for ago in (2, 1, 0)
    ]
    saved.put(peg[-1])
    recorded(history, peg, "store")
    with still(), contextlib.closing(queue_of(TrimtabConfig(state_dir=state))) as queue:
        queue.add("flaps", {}, "ann", NOON - timedelta(minutes=5))
        queue.add("health", {"clusters": ["prod"]}, "ben", NOON - timedelta(minutes=4))
    _run("alerts silence uneven --cluster quiet --for 2h --reason test")
    (state / "leader").mkdir()
    (state / "leader" / "prod.forecast.json").write_bytes(msgspec.json.encode(FORECAST))
    _run("backup kept")


def _people(folder: Path) -> None:
    """People with passwords and tokens, and a run that waits for a second person."""
    (folder / "people").mkdir(mode=0o700)
    with still():
        for name in ("ann", "ben", "vic"):
            out = _run(f"tokens create {name} --config people.toml").out
            (folder / f"{name}.token").write_text(next(w for w in out.split() if "ttk_" in w))
    _run("users add vic --config people.toml --group sre", "correct horse battery\n")
    access = AccessConfig(key_file=folder / "key" / "installation.key")
    at = f"sqlite:///{folder / 'people' / 'journal.db'}"
    with contextlib.closing(SqlJournal(at)) as journal:
        journal.append(as_requested(record_of(requested(3), run_id=WAITING, second=5), access))


def _run(line: str, typed: str = "") -> Result:
    """Run a command line that has to work."""
    result = command(shlex.split(line), typed)
    assert result.code == 0, (line, result)
    return result


PLANS: Mapping[str, str] = {
    "unload": f"unload fleet --bundle {BUNDLE} --bundle {OTHER}",
    "unload-to": f"unload fleet --bundle {BUNDLE} --to {BROKER}",
    "unload-extensible": f"unload extensible --bundle {SMALL_BUNDLES[0]}",
    "shed": "shed small --strategy ThresholdShedder",
    "split": f"split small --bundle {HOTTEST}",
    "split-unload": f"split small --bundle {HOTTEST} --unload --reason hot",
    "optimize": "optimize small",
    "set": "set prod loadBalancerSheddingEnabled=false loadBalancerSheddingIntervalMinutes=2",
    "unset": "set prod --unset loadBalancerDebugModeEnabled",
    "policy": "policy set prod anti_affinity acme/orders orders",
    "policy-isolation": (
        'policy set prod isolation pin \'{"namespaces":["initech/.*"],"primary":["10.1.0.[12]"],'
        '"auto_failover_policy":{"policy_type":"min_available",'
        '"parameters":{"min_limit":"1","usage_threshold":"80"}}}\' --unload'
    ),
    "policy-delete": "policy delete prod resource_group gold",
    "pegasus-level": "pegasus level plain set lively",
    "pegasus-set": "pegasus set plain only_move_primary true",
    "pegasus-move": f"pegasus move plain temp.1 move_pri --from {NODES[0]} --to {NODES[1]}",
    "pegasus-move-steady": (
        f"pegasus move plain 2.1 copy_pri --from {NODES[0]} --to {NODES[2]} --steady"
    ),
    "pegasus-propose": f"pegasus propose plain 2.0 ct_remove --node {NODES[1]}",
    "pegasus-migrate": f"pegasus migrate plain {NODES[0]}",
    "pegasus-drain": f"pegasus drain plain {NODES[0]}",
    "pegasus-offline": f"pegasus offline plain {NODES[0]} --rate 20",
    "pegasus-rolling-update": "pegasus rolling-update plain",
    "pegasus-rebalance": "pegasus rebalance plain --only-move-primary",
    "pegasus-even": "pegasus even peg --by primaries --moves 2",
    "pegasus-even-disk": "pegasus even peg --by disk",
}
"""Every kind of plan: its file in ``plans`` and the command line that writes it."""


def _plans() -> None:
    Path("plans").mkdir()
    for name, line in PLANS.items():
        _run(f"{line} --plan plans/{name}.json")


_SIZES: Final = re.compile(r'(trimtab_journal_bytes |"bytes": )[0-9.]+')
_SIZE_OF_FILES: Final = re.compile(r"[0-9.]+ kB(\.?)$", re.MULTILINE)
"""Of files of a database, a history and an archive: of their versions, and of random names."""

_WORST: Final = re.compile(r'("expected_worst": \d+\.\d{9})\d+')
"""By logarithms, whose last bit is each processor's own."""


def masked(text: str, folder: Path) -> str:
    """Return a text without the folder, and without what is each machine's own."""
    text = _SIZES.sub(r"\g<1>0", text.replace(str(folder), "FOLDER"))
    text = _SIZE_OF_FILES.sub(r"0 kB\g<1>", text)
    return _WORST.sub(r"\g<1>", text)
