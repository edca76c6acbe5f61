"""Files of a state folder, byte by byte or as text: plans, journal, history, snapshots."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from actions_world import BROKERS, MOVABLE, Faults, World, plan_of
from fleet_builder import NOON
from frozen_schemas import rows_text, schema_text
from frozen_world import masked, snapshots
from pegasus_world import N1, N2, N3, PegasusWorld, move, pegasus_plan

from core.actions.events import canonical
from core.actions.model import RunOptions
from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.ids import parse_range
from core.pegasus.steps.level import SetMetaLevel
from core.plan.model import sealed
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.step import Step

_ROWS: Final = 12
_IDS: Final = re.compile(r'("(?:snapshot_id|plan_id)":")[0-9a-f]+')
_FAST: Final = RunOptions(pace_per_min=600.0, verify_within_s=4.0, max_failures=5)
_DELTA: Final = re.compile(r'("(?:id|createdTime)": )("[^"]*"|\d+)')


def file_texts(world: Path, _: Path) -> dict[str, str]:
    """Return every frozen file."""
    return {
        **{f"plans/{one.name}": one.read_text() for one in sorted((world / "plans").iterdir())},
        **{f"journal/{name}.txt": text for name, text in journals(world).items()},
        **{f"runs/{name}.jsonl": run_text(scene) for name, scene in SCENES.items()},
        **{f"history/{name}.txt": text for name, text in history_texts(world).items()},
        **{
            f"snapshots/{name}.json": (world / name / "manifest.json").read_text()
            for name in snapshots()
        },
    }


def journals(world: Path) -> dict[str, str]:
    """Return the rows of the journals, table by table."""
    return {
        name: masked("".join(_dump(world / name / "journal.db")), world)
        for name in ("state", "people")
    }


def _dump(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        made = database.execute("SELECT name, sql FROM sqlite_master ORDER BY type, name")
        for name, sql in made.fetchall():
            yield f"{sql or name}\n"
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in sorted(tables.fetchall()):
            for row in database.execute(f'SELECT * FROM "{name}" ORDER BY rowid'):
                yield f"{name}: {json.dumps(row, default=str, ensure_ascii=False)}\n"


# -- runs of the executor --------------------------------------------------------------------------


def run_text(scene: Callable[[], World]) -> str:
    """Return the entries that an executed run leaves, as the journal holds them."""
    lines = (canonical(entry.record) for entry in scene().entries)
    return "".join(_IDS.sub(r"\g<1>0", line) + "\n" for line in lines)


def _moved(
    destination: str | None = None, *, is_paused: bool = False, **faults: object
) -> Callable[[], World]:
    def scene() -> World:
        world = World()
        if faults:
            world.faults[MOVABLE[1]] = Faults(**faults)  # type: ignore[arg-type]  # fields of faults
        options = replace(_FAST, pause_balancer=is_paused)
        world.ask(bundles=MOVABLE[:3], destination=destination, options=options)
        world.outlive()
        return world

    return scene


def _stepped(*steps: Step) -> Callable[[], World]:
    def scene() -> World:
        world = World()
        world.ask(plan=sealed(replace(plan_of(world, ()), steps=steps)), options=_FAST)
        world.outlive()
        return world

    return scene


def _of_pegasus() -> World:
    world = PegasusWorld(level="lively", level_before="lively")
    world.lively_since_s = 0.0
    steps = (
        SetMetaLevel(before="lively", level="steady", is_restored=True),
        move("2.0", N1, N2),
        move("2.1", N1, N3),
    )
    world.ask(plan=pegasus_plan(world, steps), options=_FAST)
    world.outlive()
    return world


def _stopped() -> World:
    world = World()
    world.ask(bundles=MOVABLE[:3], options=_FAST)
    world.at(0.2, lambda: world.control("stop", "enough"))
    world.outlive()
    return world


_LOWER, _UPPER = parse_range(MOVABLE[0].rpartition("/")[2])

SCENES: Final[Mapping[str, Callable[[], World]]] = {
    "moved": _moved(),
    "moved-to": _moved(BROKERS[1], is_paused=True),
    "refused": _moved(answer="refused"),
    "not-heard": _moved(answer="lost"),
    "swallowed": _moved(answer="swallowed"),
    "elsewhere": _moved(BROKERS[1], lands_on=BROKERS[2]),
    "stopped": _stopped,
    "setting": _stepped(
        SetDynamicSetting(
            key="loadBalancerBrokerThresholdShedderPercentage", before=None, value="17"
        )
    ),
    "split": _stepped(
        SplitBundle(
            bundle=MOVABLE[0],
            owner=str(World().owners[MOVABLE[0]]),
            algorithm="range_equally_divide",
            boundaries=((_LOWER + _UPPER) // 2,),
            is_unloaded=True,
        )
    ),
    "pegasus": _of_pegasus,
}
"""Runs in virtual time, by name."""


# -- history ---------------------------------------------------------------------------------------


def history_texts(world: Path) -> dict[str, str]:
    """Return form and first rows of each kind of rows in a history."""
    store = HistoryStore(HistoryLocation(str(world / "state" / "history")))
    found = {}
    for kind in KINDS:
        text = schema_text(kind.stored)
        log = world / "state" / "history" / kind.name / "_delta_log" / f"{0:020}.json"
        if log.exists():
            text += "".join(_delta(log))
            for cluster in ("prod", "store"):
                table = store.rows(kind.name, cluster, NOON.replace(hour=0), NOON)
                rows = sorted(rows_text(table))
                text += f"\n== {cluster}: {table.num_rows} rows\n"
                text += "".join(f"{row}\n" for row in rows[:_ROWS])
        found[kind.name] = text
    return found


def _delta(log: Path) -> Iterator[str]:
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if "commitInfo" not in entry:
            yield _DELTA.sub(r"\g<1>0", json.dumps(entry, sort_keys=True)) + "\n"
