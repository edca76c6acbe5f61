"""Every answer of the command line over fixed inputs at a fixed moment, as one text a case.

A change of structure must not change what Trimtab answers. ``tests/frozen/answers.json`` holds the
SHA-256 of each answer and a test compares them. To see what differs, write the texts of both
checkouts and compare the folders::

    python tests/frozen/answers.py write FOLDER     # the answers as files
    python tests/frozen/answers.py freeze           # keep today's answers, after a wanted change
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS.parent)]

import time_machine  # noqa: E402  # after the path
from fleet_builder import NOON, make_snapshot  # noqa: E402  # after the path
from fleet_edit import with_manifest, with_settings  # noqa: E402  # after the path
from pegasus_snapshots import generated  # noqa: E402  # after the path

from core.snapshot.store import save_snapshot  # noqa: E402  # after the path
from dashboard.cli.main import run  # noqa: E402  # after the path

HERE = Path(__file__).parent
FROZEN = HERE / "answers.json"
MOMENT = NOON + timedelta(seconds=20)
STRATEGIES = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")
PLACEMENTS = (
    "LeastLongTermMessageRate",
    "LeastResourceUsageWithWeight",
    "RoundRobinBrokerSelector",
)
SNAPSHOTS = ("fleet", "small", "even", "extensible", "peg")
RELEASES = ("2.8", "2.10", "3.0", "4.0", "4.2", "5.0")
_TOOK = re.compile(r'("(?:elapsed_ms|duration_ms|took_s|elapsed_s)": )(?:\[[^]]*\]|[0-9.e+-]+)')


def world(folder: Path) -> None:
    """Write the snapshots and files that the cases read into ``folder``."""
    fleet = make_snapshot()
    snapshots = {
        "fleet": fleet,
        "small": make_snapshot(brokers=4, bundles=60),
        "even": with_settings(
            fleet, (None, "loadBalancerDistributeBundlesEvenlyEnabled", "false", "dynamic")
        ),
        "extensible": with_manifest(
            make_snapshot(brokers=4, bundles=60), load_manager="extensible"
        ),
        "peg": generated(6, 16, 5, taken_at=NOON),
    }
    for name, snapshot in snapshots.items():
        save_snapshot(snapshot, folder / name)
    bundle = fleet.bundles["bundle"][0].as_py()
    namespace = bundle.rpartition("/")[0]
    lines = ["topic"] + [f"persistent://{namespace}/topic-{number}" for number in range(200)]
    (folder / "topics.csv").write_text("\n".join(lines) + "\n")


def cases() -> dict[str, str]:
    """Return every case: its name to its command line, run in the folder of the world."""
    both = [*_balancing(), *_reading()]
    helps = ("", "shed", "unload", "pegasus drain", "history export", "backtest", "policy set")
    return (
        {f"{name}.json": f"{line} --json" for name, line in both}
        | {f"{name}.txt": line for name, line in both}
        | {f"help-{one.replace(' ', '-')}.txt": f"{one} --help".strip() for one in helps}
    )


def _balancing() -> Iterator[tuple[str, str]]:
    fleet, small = make_snapshot(), make_snapshot(brokers=4, bundles=60)
    bundle, other = (fleet.bundles["bundle"][row].as_py() for row in (0, 200))
    broker = fleet.brokers["broker"][9].as_py()
    for strategy in STRATEGIES:
        for release in RELEASES:
            yield (
                f"shed-{strategy}-{release}",
                f"shed fleet --strategy {strategy} --release {release}",
            )
        key = "loadBalancerLoadSheddingStrategy"
        name = f'"org.apache.pulsar.broker.loadbalance.impl.{strategy}"'
        yield f"shed-{strategy}-rounds", f"shed fleet --strategy {strategy} --rounds 12"
        yield f"simulate-{strategy}", f"simulate small --shed {strategy}"
        yield f"explain-{strategy}", f"explain fleet --set {key}={name}"
    for strategy in PLACEMENTS:
        yield f"place-{strategy}", f"place fleet --bundle {bundle} --strategy {strategy}"
    yield "place-extensible", f"place extensible --bundle {small.bundles['bundle'][0].as_py()}"
    yield "explain-bundle", f"explain fleet --bundle {bundle}"
    yield "split", f"split fleet --bundle {bundle}"
    yield "optimize", "optimize small"
    yield "unload", f"unload fleet --bundle {bundle} --bundle {other} --plan unload.plan"
    yield "unload-destination", f"unload fleet --bundle {bundle} --to {broker} --plan to.plan"
    yield "preview", "preview unload.plan --snapshot fleet"
    yield "preview-destination", "preview to.plan --snapshot fleet"


def _reading() -> Iterator[tuple[str, str]]:
    namespace = make_snapshot().bundles["namespace"][0].as_py()
    yield from ((f"health-{one}", f"health {one}") for one in SNAPSHOTS)
    yield from ((f"doctor-{one}", f"doctor {one}") for one in ("fleet", "even"))
    yield from ((one, f"{one} fleet") for one in ("owners", "tenants", "isolation"))
    yield "lookup", f"lookup fleet persistent://{namespace}/orders-1"
    yield "drill", "drill small"
    yield "topics", "topics topics.csv --snapshot fleet"
    yield "quota", "quota --limit 100 --usage 10 --usage 50 --usage 30"
    yield "advise-bundles", f"advise bundles --snapshot fleet --namespace {namespace}"
    yield "advise-compaction", "advise compaction --live 0.3"
    yield "advise-queue", "advise queue --partitions 8"
    yield "advise-ledger", "advise ledger --rate 1000 --throughput 1000000"
    yield "advise-retention", "advise retention --throughput 1000000"
    yield "advise-disks", "advise disks fleet"
    yield "advise-partitions", "advise partitions a/b/c --partitions 16 --bundles 32"
    yield "advise-lookups", f"advise lookups fleet --namespace {namespace}"
    for command in ("balance", "nodes", "tables", "health", "level"):
        yield f"pegasus-{command}", f"pegasus {command} peg"
    for wrong in ("place fleet", "health nowhere", "shed fleet --strategy None", "unload fleet"):
        yield f"wrong-{wrong.replace(' ', '-')}", wrong


def answers(folder: Path) -> Iterator[tuple[str, str]]:
    """Run every case in ``folder`` and yield its name and its answer: code, output and errors."""
    environment = {"TRIMTAB_CONFIG": "", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    before, place = dict(os.environ), Path.cwd()
    os.environ.update(environment)
    os.environ.pop("TRIMTAB_CONFIG")
    os.chdir(folder)
    try:
        with time_machine.travel(MOMENT, tick=False):
            world(folder)
            for name, line in cases().items():
                yield name, _answer(line, folder)
    finally:
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)


def _answer(line: str, folder: Path) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(line.split())
    whole = f"$ trimtab {line}\nexit {code}\n{out.getvalue()}\n{err.getvalue()}"
    return _TOOK.sub(r"\g<1>0", whole.replace(str(folder), "FOLDER"))


def digests() -> dict[str, str]:
    """Return the SHA-256 of every answer."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            name: hashlib.sha256(text.encode()).hexdigest()
            for name, text in answers(Path(folder).resolve())
        }


def main(arguments: list[str]) -> int:
    """Write the answers, or keep their digests."""
    match arguments:
        case ["write", target]:
            Path(target).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                for name, text in answers(Path(folder).resolve()):
                    (Path(target) / name).write_text(text)
        case ["freeze"]:
            FROZEN.write_text(json.dumps(digests(), indent=1, sort_keys=True) + "\n")
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
