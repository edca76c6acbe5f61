"""Tables of jobs and of ``--out`` have the frozen schemas, metadata included."""

from __future__ import annotations

from pathlib import Path

from answers import HERE
from frozen_schemas import NO_OUT, OUT_LINES, REQUESTS, commands_with_out, job_texts, out_texts
from frozen_texts import assert_frozen

from connectors.jobs.catalogue import kinds

SCHEMAS = HERE / "schemas"


def test_every_kind_of_job_is_frozen() -> None:
    assert [name for name in kinds() if name not in REQUESTS] == []
    assert set(REQUESTS) - set(kinds()) == set()


def test_every_command_with_out_is_frozen() -> None:
    frozen = {name.removesuffix("-pegasus") for name in OUT_LINES}
    assert commands_with_out() == frozen | set(NO_OUT)


def test_tables_of_jobs_are_the_frozen_ones(world: Path, tmp_path: Path) -> None:
    assert_frozen(SCHEMAS, job_texts(world, tmp_path.resolve() / "world"), "jobs/")


def test_tables_of_commands_are_the_frozen_ones(world: Path, tmp_path: Path) -> None:
    assert_frozen(SCHEMAS, out_texts(world, tmp_path.resolve()), "out/")
