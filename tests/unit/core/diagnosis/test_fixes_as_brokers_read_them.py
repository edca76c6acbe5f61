"""What a fix sets can be copied to a broker: classes with their package, lists as they are read."""

from __future__ import annotations

import json
import re

import pytest
from report_cluster import Report, all_reports

from core.diagnosis.pulsar.trials import PLACEMENT, SHEDDING
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.pulsar.presets import set_command
from core.pulsar.shedding import upstream_class
from core.snapshot.store import save_snapshot
from dashboard.cli.main import run

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
CLASSES = re.compile(rf"({SHEDDING}|{PLACEMENT}|loadManagerClassName)=(\S+)")
LONG = DiagnoseRequest(seconds=60.0)


def report(name: str) -> Report:
    return next(one for one in all_reports("pulsar") if one.name == name)


@pytest.mark.parametrize("name", ["21174", "22946_unlike_machines", "6772", "18052"])
def test_a_class_in_a_fix_has_its_package(name):
    causes = diagnose(report(name).snapshot(), LONG).causes
    found = []
    for cause in causes:
        found += CLASSES.findall("\n".join((*cause.fix.lines, cause.hint)))
        found += [(key, cause.fix.wanted.get(key, IMPL)) for key in (SHEDDING, PLACEMENT)]
    assert {key for key, _ in found}
    assert all(value.rstrip(".;").startswith(IMPL[:-1]) for _, value in found), found


def test_the_command_prints_the_class_with_its_package(tmp_path, capsys):
    save_snapshot(report("21174").snapshot(), tmp_path / "s")
    assert run(["diagnose", str(tmp_path / "s"), "--json", "--seconds", "30"]) == 0
    fix = json.loads(capsys.readouterr().out)["causes"][0]["fix"]
    line = f"{PLACEMENT}={IMPL}LeastResourceUsageWithWeight"
    assert fix["broker_conf"] == [line]
    assert line in fix["sentence"]
    assert run(["diagnose", str(tmp_path / "s"), "--seconds", "30"]) == 0
    assert line in capsys.readouterr().out


def test_a_class_that_has_its_package_keeps_it():
    assert upstream_class("ThresholdShedder") == f"{IMPL}ThresholdShedder"
    assert upstream_class(f"{IMPL}ThresholdShedder") == f"{IMPL}ThresholdShedder"
    assert upstream_class("TransferShedder").endswith(".extensions.scheduler.TransferShedder")


def test_an_emptied_list_is_set_to_nothing():
    (first, *_) = diagnose(report("23549").snapshot(), LONG).causes
    key = "loadBalancerSheddingExcludedNamespaces"
    assert dict(first.fix.wanted) == {key: []}
    assert first.hint == f"Clear {key}."
    assert f"{key}= " in set_command(first.fix.wanted, "c")
