"""The verdict on a cluster: what is wrong, what was examined, and what could not be."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, every, with_settings
from pegasus_diagnosis import CALM, LIVELY, cluster, even_parts, node_names
from report_cluster import DUMPS, LATER, all_reports

from core.findings.finding import Finding
from core.findings.verdict import Area, Verdict
from core.pegasus.rules.registry import pegasus_verdict
from core.pegasus.snapshot import PegasusFacts
from core.pulsar.rules.registry import AREAS
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from dashboard.app_pages.fleet import model
from dashboard.cli.main import run
from dashboard.presenters.fleet import ActionStatus


def calm() -> PulsarSnapshot:
    """A control of the reports: nothing is wrong."""
    found = next(one for one in all_reports("pulsar") if one.name == "healthy_two_brokers")
    return found.snapshot()


def reasons(snapshot: PulsarSnapshot) -> dict[str, str]:
    return {one.name: one.unexamined for one in verdict_of(snapshot).areas}


def test_every_area_is_examined_or_has_a_reason():
    snapshot = import_zk_dump(DUMPS / "serving" / "i13973.jsonl", "c", LATER)
    verdict = verdict_of(snapshot)
    assert tuple(one.name for one in verdict.areas) == AREAS
    assert verdict.is_clear
    assert verdict.state == "unknown", "settings are not in the dump"
    assert verdict.sentence.startswith("No problem found. Examined: load, serving, ")
    assert "settings (settings are not in this dump)" in verdict.scope


def test_a_cluster_without_brokers_is_examined_in_no_area():
    snapshot = make_snapshot(brokers=3, bundles=20, missing=("brokers",))
    assert set(reasons(snapshot).values()) == {"no broker is known"}
    assert verdict_of(snapshot).scope.startswith("Nothing was examined.")


@pytest.mark.parametrize(
    ("area", "change", "words"),
    [
        ("load", {"msg_throughput_in": None}, "1 of 2 brokers have no load report"),
        (
            "addresses",
            {"service_url": None, "service_url_tls": None},
            "1 of 2 brokers report no service URL",
        ),
    ],
)
def test_an_area_of_which_one_broker_lacks_the_data_is_not_examined_whole(area, change, words):
    snapshot = calm()
    first = snapshot.brokers["broker"][0].as_py()
    assert reasons(snapshot)[area] == ""
    assert words in reasons(edited(snapshot, "brokers", {first: change}))[area]


def test_a_broker_that_serves_over_tls_alone_has_an_address():
    changes = {"service_url": None, "service_url_tls": "pulsar+ssl://b:6651"}
    assert reasons(every(calm(), "brokers", changes))["addresses"] == ""


def test_liveness_takes_sessions_and_the_time_of_every_report():
    snapshot = import_zk_dump(DUMPS / "serving" / "i13973.jsonl", "c", LATER)
    first = snapshot.brokers["broker"][0].as_py()
    assert reasons(snapshot)["liveness"] == ""
    silent = edited(snapshot, "brokers", {first: {"reported_at": None}})
    assert "of the last report of 1 of 4 brokers is unknown" in reasons(silent)["liveness"]
    assert reasons(calm())["liveness"].startswith("sessions are not in this ")


def test_bundles_without_a_known_owner_leave_serving_unexamined():
    snapshot = every(calm(), "bundles", {"owner": None, "owner_source": None})
    assert reasons(snapshot)["serving"].startswith("the owner of ")


@pytest.mark.parametrize(
    ("dump", "areas"),
    [
        ("healthy", {"serving", "liveness", "policies"}),
        ("serving/iadmin", {"serving", "liveness", "policies", "leader"}),
    ],
)
def test_an_area_whose_znodes_a_dump_lacks_is_not_examined(dump, areas):
    snapshot = import_zk_dump(DUMPS / f"{dump}.jsonl", "c", LATER)
    found = {name: why for name, why in reasons(snapshot).items() if name in areas}
    assert all(why.endswith("not in this dump") for why in found.values()), found
    assert not {"no_leader"} & {one.code for one in verdict_of(snapshot).findings}


def test_a_dump_of_the_load_balancer_alone_has_neither_owners_nor_policies(tmp_path):
    lines = (DUMPS / "serving" / "i23984.jsonl").read_text().splitlines()
    part = tmp_path / "dump.jsonl"
    part.write_text("\n".join(one for one in lines if '"path": "/loadbalance/' in one))
    found = reasons(import_zk_dump(part, "c", LATER))
    assert (found["serving"], found["policies"]) == ("not in this dump", "not in this dump")
    assert found["liveness"] == ""


def test_a_disabled_znode_counts_in_a_dump_without_times(tmp_path):
    lines = map(json.loads, (DUMPS / "serving" / "i11920.jsonl").read_text().splitlines())
    plain = [json.dumps({"path": one["path"], "value": one["value"]}) for one in lines]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("\n".join(plain))
    (one,) = verdict_of(import_zk_dump(dump, "c", LATER)).problems
    assert (one.code, one.severity) == ("refused_bundles", "warning")
    assert one.hint.startswith("An unload may be in progress: check again in a minute.")


def test_owners_of_the_extensible_manager_count_as_examined_once_its_channel_was_read():
    made = next(one for one in all_reports("pulsar") if one.name == "healthy_extensible")
    snapshot = made.snapshot()
    assert "channel" in reasons(snapshot)["serving"]
    assert reasons(every(snapshot, "bundles", {"owner_source": "channel"}))["serving"] == ""


def test_settings_count_as_examined_once_a_running_value_was_read():
    dynamic = with_settings(calm(), (None, "loadBalancerSheddingEnabled", "true", "dynamic"))
    assert reasons(dynamic)["settings"].endswith(": only dynamic ones")
    read = with_settings(dynamic, (None, "maxUnloadPercentage", "0.2", "file"))
    assert reasons(read)["settings"] == ""


def test_a_problem_of_the_settings_doctor_is_part_of_the_verdict():
    crossed = with_settings(
        calm(),
        (None, "loadBalancerSheddingIntervalMinutes", "5", "file"),
        (None, "loadBalancerSheddingGracePeriodMinutes", "1", "file"),
    )
    found = {one.code: one for one in verdict_of(crossed).problems}
    assert found["short_grace"].area == "settings"
    assert not verdict_of(crossed).is_clear


def test_a_part_of_a_cluster_gives_no_all_clear_for_the_rest():
    wrong = Finding(
        code="x", severity="error", title="Bundles are refused", sentence="S.", area="serving"
    )
    verdict = Verdict(findings=(wrong,), areas=(Area(name="serving"),))
    assert verdict.elsewhere(("policies",)) == "Elsewhere in this cluster: 1 error (serving)."
    assert verdict.elsewhere(("serving",)) == ""


@pytest.mark.parametrize("command", ["doctor", "isolation", "owners"])
def test_commands_about_a_part_name_what_is_open_elsewhere(command, tmp_path, capsys):
    save_snapshot(make_snapshot(brokers=12, bundles=600), tmp_path / "s")
    assert run([command, str(tmp_path / "s"), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["elsewhere"].startswith("Elsewhere in this cluster: 1 error, ")
    assert "load" in body["elsewhere"]
    assert not any("Elsewhere" in one for one in body.get("unjudged", ()))
    assert run([command, str(tmp_path / "s")]) == 0
    shown = capsys.readouterr().out
    assert f"\n{body['elsewhere']}\n" in shown
    assert "could not be evaluated" not in shown or body.get("unjudged")


def test_partitions_that_were_not_read_are_named():
    names = node_names(5)
    whole = cluster(even_parts(1, 8, names), settings={**LIVELY, **CALM})
    verdict = pegasus_verdict(PegasusFacts(whole))
    assert {one.unexamined for one in verdict.areas} == {""}
    entry = replace(whole.manifest.tables["partitions"], expected=16)
    tables = {**whole.manifest.tables, "partitions": entry}
    part = replace(whole, manifest=replace(whole.manifest, tables=tables))
    lacks = {one.name: one.unexamined for one in pegasus_verdict(PegasusFacts(part)).areas}
    assert lacks["partitions"] == "8 of 16 partitions were read"
    assert lacks["level"] == ""


def test_a_firing_alert_takes_the_all_clear_from_the_fleet():
    clear = Verdict(findings=(), areas=(Area(name="load"),))
    calm_row = model.FleetRow(cluster="c", acting=ActionStatus(access="", run=""), verdict=clear)
    assert calm_row.state == "ok"
    assert replace(calm_row, alerts=1).state == "attention"
    blind = replace(clear, areas=(Area(name="load", unexamined="no report"),))
    assert replace(calm_row, verdict=blind).state == "unknown"


@pytest.mark.parametrize(
    ("age_min", "firing", "status", "note"),
    [
        (1, 0, "ok", "0 firing"),
        (60, 0, "unknown", "not evaluated: 1 cluster not collected"),
        (None, 0, "unknown", "not evaluated: 1 cluster not collected"),
        (60, 2, "bad", "firing"),
    ],
)
def test_no_alert_is_no_all_clear_where_no_collector_evaluates_them(
    age_min, firing, status, note
) -> None:
    now = datetime(2026, 11, 28, tzinfo=UTC)
    taken_at = None if age_min is None else now - timedelta(minutes=age_min)
    row = model.FleetRow(cluster="c", acting=ActionStatus(access="", run=""), taken_at=taken_at)
    figure = model._alerts({"firing": firing, "silenced": 0}, [row], now - timedelta(minutes=5))
    assert (figure.value, figure.status, figure.note) == (str(firing), status, note)
