"""Plans, journal, history and snapshots are written as the frozen ones."""

from __future__ import annotations

import json
from pathlib import Path

from answers import HERE
from frozen_files import file_texts
from frozen_texts import assert_frozen, names_in

from core.history.store.store import KINDS
from core.systems import STEPS

FILES = HERE / "files"


def test_files_are_the_frozen_ones(world: Path, tmp_path: Path) -> None:
    assert_frozen(FILES, file_texts(world, tmp_path))


def test_every_kind_of_step_is_in_a_frozen_plan() -> None:
    plans = (json.loads(path.read_text()) for path in (FILES / "plans").iterdir())
    frozen = {step["kind"] for plan in plans for step in plan["steps"]}
    assert {str(kind.__struct_config__.tag) for kind in STEPS.kinds} == frozen


def test_every_kind_of_rows_of_a_history_is_frozen() -> None:
    assert {f"history/{kind.name}.txt" for kind in KINDS} <= names_in(FILES)
