"""Public configurations: what the doctor finds in each, and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from report_answers import assert_answer_frozen
from report_cluster import DUMPS, NOW, REPORTS

from core.findings.finding import Finding
from core.pulsar.catalogue.broker_keys import broker_keys
from core.pulsar.rules.doctor import examine
from core.pulsar.rules.doctor.of_config import examine_config
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.config_files import (
    read_broker_conf,
    read_helm_values,
    snapshot_of_config,
)
from core.snapshot.store import load_snapshot

FILES = sorted((REPORTS / "settings").glob("*.toml"))
READERS = {"conf": read_broker_conf, "helm": read_helm_values}


def warnings_of(facts: dict[str, Any], folder: Path) -> list[Finding]:
    if "saved" in facts:
        return list(examine(load_snapshot(DUMPS / facts["saved"])).warnings)
    form = next(name for name in READERS if name in facts)
    path = folder / form
    path.write_text(facts[form], encoding="utf-8")
    config = READERS[form](path)
    release = facts.get("release")
    snapshot = snapshot_of_config(config, NOW, release)
    settings = effective_settings(snapshot, release=release)
    return list(examine_config(config, snapshot, settings).warnings)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_doctor_finds_what_is_established_and_nothing_else(path, tmp_path):
    facts = tomllib.loads(path.read_text(encoding="utf-8"))
    expected = facts["expected"]
    found = warnings_of(facts, tmp_path)
    assert {one.code for one in found} == set(expected["findings"])
    assert set(expected.get("keys", ())) <= {key for one in found for key in one.keys}
    assert_answer_frozen(f"settings/{path.stem}", found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_fix_writes_a_key_that_the_broker_does_not_read(path, tmp_path):
    facts = tomllib.loads(path.read_text(encoding="utf-8"))
    for one in warnings_of(facts, tmp_path):
        keys = [*one.fix.wanted, *(line.partition("=")[0] for line in one.fix.lines)]
        names = [key.removeprefix("PULSAR_PREFIX_").partition(":")[0] for key in keys]
        assert set(names) <= broker_keys().keys()
        assert "loadBalancerPlacementStrategy" not in names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_report_names_its_source(path):
    facts = tomllib.loads(path.read_text(encoding="utf-8"))
    for part in ("source", "title", "facts", "cause", "solved_by"):
        assert facts[part]
