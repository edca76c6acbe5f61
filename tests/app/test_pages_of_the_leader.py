"""The next round of the leader observer: on pages, in the shadow balancer, on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest
from fleet_builder import make_history
from snapshot_site import Site, assert_calm, now, texts

from core.history.analysis.accuracy.pulsar import PulsarShadow
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.pulsar.leader.prediction import (
    Forecast,
    LeadAccuracy,
    PredictedBundle,
    RoundPrediction,
    ShareBin,
)
from core.snapshot.store import save_snapshot
from core.units import datetime_to_ms
from dashboard.cli.main import run
from dashboard.presenters.pulsar.leader_round import headline, notes


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def fleet(site):
    history = make_history(6, brokers=6, bundles=80, now=now())
    site.put(*history)
    return history[-1]


def predicted(fleet, at_s: float) -> RoundPrediction:
    names = fleet.bundles["bundle"].to_pylist()[:3]
    broker, other = fleet.brokers["broker"].to_pylist()[:2]
    return RoundPrediction(
        at_s=at_s,
        made_at_s=at_s - 23,
        leader=broker,
        strategy="ThresholdShedder",
        bundles=(
            PredictedBundle(bundle=names[0], broker=broker, share=0.9, destinations={other: 1.0}),
            PredictedBundle(bundle=names[1], broker=broker, share=0.8, skipped="no destination"),
            PredictedBundle(bundle=names[2], broker=broker, share=0.25, is_selected=False),
        ),
        label="success",
        reason="overloaded",
        sentence="ThresholdShedder unloads 2 bundles.",
        warnings=("A report of b-1:8080 is due within 0.3 s of the round.",),
    )


def publish(site, fleet, **changes) -> Forecast:
    at_s = now().timestamp()
    made = Forecast(
        cluster=fleet.manifest.cluster,
        written_at_s=at_s,
        observed_since_s=at_s - 3600,
        status="watching",
        next_round=predicted(fleet, at_s + 600),
        accuracy=(
            LeadAccuracy(
                lead_s=0.0,
                rounds=40,
                exact=39,
                active=21,
                active_exact=20,
                predicted=80,
                actual=81,
                hits=79,
            ),
            LeadAccuracy(
                lead_s=10.0,
                rounds=40,
                exact=31,
                active=21,
                active_exact=12,
                predicted=80,
                actual=81,
                hits=66,
            ),
        ),
        calibration=(ShareBin(low=0.9, high=1.0, shown=50, came_true=46, share_total=47.5),),
        unknown=("Future reports.",),
    )
    made = msgspec.structs.replace(made, **changes)
    folder = site.state_dir / "leader"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{fleet.manifest.cluster}.forecast.json"
    path.write_bytes(msgspec.json.encode(made))
    return made


def opened(site):
    """The Rebalance page with the tab in which the next round is."""
    app = site.open("rebalance", play="false")
    app.session_state["view"] = "Why"
    app.run()
    assert_calm(app)
    return app


def test_rebalance_shows_the_next_round_with_shares_and_accuracy(site, fleet):
    publish(site, fleet)
    app = opened(site)
    assert_calm(app)
    said = texts(app)
    assert "Next round in" in said
    assert "1 bundle, 90%" in said
    assert "due within 0.3" in said
    shown = next(one.value for one in app.dataframe if "share" in one.value.columns)
    assert shown["share"].tolist() == [0.9, 0.8, 0.25]
    by_lead = next(one.value for one in app.dataframe if "lead" in one.value.columns)
    assert by_lead["active"].tolist() == ["20 of 21", "12 of 21"]
    assert by_lead["idle"].tolist() == ["19", "19"]


def test_the_headline_and_the_sentence_each_name_their_source_and_moment(site, fleet):
    forecast = publish(site, fleet)
    assert forecast.next_round is not None
    made = datetime.fromtimestamp(forecast.next_round.made_at_s, UTC)
    said = texts(opened(site))
    assert f"predicted from leader events at {made:%H:%M:%S} UTC" in said
    assert f"Snapshot {fleet.manifest.taken_at:%H:%M:%S} UTC, frozen" in said


def test_where_no_futures_are_drawn_no_share_is_shown(site, fleet, capsys):
    at_s = now().timestamp() + 600
    unknown = "the start of the leader's rounds is estimated"
    one = msgspec.structs.replace(
        predicted(fleet, at_s), strategy="TransferShedder", has_shares=False, warnings=(unknown,)
    )
    made = publish(site, fleet, next_round=one)
    app = opened(site)
    assert_calm(app)
    said = texts(app)
    assert "1 bundle" in said
    assert "1 bundle, 90%" not in said
    assert unknown in said
    assert "TransferShedder: no shares" in said
    shown = next(one.value for one in app.dataframe if "note" in one.value.columns)
    assert "share" not in shown.columns
    assert run(["leader", "next", made.cluster]) == 0
    said = capsys.readouterr().out
    assert unknown in said
    assert "90%" not in said


def test_without_an_observer_rebalance_says_what_it_goes_by(site, fleet):
    app = opened(site)
    assert_calm(app)
    assert "No leader observer" in texts(app)


def test_a_prediction_of_a_stopped_collector_is_not_shown(site, fleet):
    publish(site, fleet, next_round=predicted(fleet, now().timestamp() - 600))
    app = opened(site)
    assert_calm(app)
    assert "Last prediction" in texts(app)
    assert "Next round in" not in texts(app)


def test_a_forecast_that_a_killed_collector_left_is_not_shown(site, fleet, capsys):
    """Its round may still be to come: rounds can be many minutes apart."""
    at_s = now().timestamp()
    old = publish(site, fleet, written_at_s=at_s - 300, next_round=predicted(fleet, at_s + 600))
    app = opened(site)
    assert_calm(app)
    assert "Last prediction" in texts(app)
    assert "Next round in" not in texts(app)
    assert run(["leader", "next", old.cluster]) == 0
    said = "".join(capsys.readouterr())
    assert "Last prediction of the leader observer: 5" in said
    assert "Next round in" not in said
    assert "Measured until" in said
    future = publish(site, fleet, written_at_s=at_s + 86_400)
    assert not future.is_live(at_s)
    assert "Next round in" not in texts(opened(site))


def test_explain_uses_the_forecast_of_a_live_cluster(site, fleet, capsys, monkeypatch, tmp_path):
    made = publish(site, fleet)
    monkeypatch.setattr("dashboard.services.pulsar.capture", lambda _: fleet)
    one = made.next_round
    assert one is not None
    leaves, broker = one.bundles[0].bundle, one.bundles[0].broker

    def explained(*words: str) -> str:
        assert run(["explain", *words]) == 0
        return capsys.readouterr().out

    assert "1 bundle, 90%. Predicted from leader events." in explained(made.cluster)
    assert f"1 bundle of {broker}, 90%" in explained(made.cluster, "--broker", broker)
    assert f"{leaves} unloaded to" in explained(made.cluster, "--bundle", leaves)
    body = json.loads(explained(made.cluster, "--json"))
    assert body["predicted_from"] == "events"
    assert body["predicted_round"]["at_s"] == one.at_s
    folder = tmp_path / "saved"
    save_snapshot(fleet, folder)
    said = explained(str(folder))
    assert "from the snapshot" in said
    assert "Next round in" not in said
    body = json.loads(explained(str(folder), "--json"))
    assert (body["predicted_from"], body["predicted_round"]) == ("snapshot", None)
    assumed = explained(made.cluster, "--set", "loadBalancerBrokerThresholdShedderPercentage=5")
    assert "from the snapshot" in assumed
    assert run(["shed", str(folder), "--strategy", "ThresholdShedder"]) == 0
    assert "from the snapshot" in capsys.readouterr().out
    publish(site, fleet, status="lost", next_round=None)
    assert "from the snapshot" in explained(made.cluster)


def test_a_broker_s_and_a_bundle_s_page_show_the_observed_round(site, fleet):
    made = publish(site, fleet)
    one = made.next_round
    assert one is not None
    broker, bundle = one.bundles[0].broker, one.bundles[2].bundle
    app = site.open("broker", broker=broker, view="Shedding decision")
    assert_calm(app)
    assert f"1 bundle of {broker}, 90%" in texts(app)
    assert "leader events" in texts(app)
    app = site.open("bundle", bundle=bundle, view="Shedding decision")
    assert_calm(app)
    assert f"{bundle} stays, 75%" in texts(app)


def test_history_and_its_report_have_the_measured_accuracy_and_until_when(site, fleet, capsys):
    made = publish(site, fleet)
    store = HistoryStore(HistoryLocation(str(site.state_dir / "history")))
    recorder = Recorder(store, made.cluster)
    shadow = PulsarShadow(observed=lambda: made.next_round)
    for snapshot in make_history(3, brokers=6, bundles=80, now=now()):
        recorder.record(snapshot)
        store.append("shadow", made.cluster, shadow.decide(snapshot))
    app = site.open("history", view="Predictions")
    assert_calm(app)
    assert "12 of 21" in texts(app)
    assert "Measured until" not in texts(app)
    publish(site, fleet, written_at_s=now().timestamp() - 86_400)
    assert "Measured until" in texts(site.open("history", view="Predictions"))
    assert run(["history", "agreement", made.cluster]) == 0
    said = capsys.readouterr().out
    assert "12 of 21" in said
    assert "Measured until" in said


def test_the_command_prints_the_round_and_the_accuracy(site, fleet, capsys):
    made = publish(site, fleet)
    assert run(["leader", "next", made.cluster]) == 0
    said = capsys.readouterr().out
    assert "1 bundle, 90%" in said
    assert "12 of 21" in said
    assert run(["leader", "next", made.cluster, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert msgspec.convert(body, Forecast) == made


def test_the_command_without_an_observer_names_what_to_start(site, fleet, capsys):
    assert run(["leader", "next", fleet.manifest.cluster]) == 1
    assert "trimtab collect" in capsys.readouterr().err


def test_the_headline_of_an_idle_round_shows_how_sure_it_is():
    idle = RoundPrediction(at_s=100.0, made_at_s=90.0, leader="b:1", strategy="AvgShedder")
    assert headline(idle, 77.0) == "Next round in 23 s: no bundles, 100%"
    some = PredictedBundle(bundle="a/b/c", broker="b:1", share=0.3, is_selected=False)
    assert headline(msgspec.structs.replace(idle, bundles=(some,)), 99.8).endswith(
        ": no bundles, 70%"
    )


@pytest.mark.parametrize(("ahead_s", "count"), [(30.0, 0), (60.0, 1)])
def test_a_round_too_far_ahead_is_marked_as_too_sure(ahead_s, count):
    one = RoundPrediction(
        at_s=100.0, made_at_s=100.0 - ahead_s, leader="b:1", strategy="AvgShedder"
    )
    assert len(notes(one)) == count


def test_where_shedding_is_off_the_headline_says_so(site, fleet):
    at_s = now().timestamp() + 600
    publish(
        site,
        fleet,
        next_round=RoundPrediction(
            at_s=at_s, made_at_s=at_s, leader="b:1", strategy="AvgShedder", reason="disabled"
        ),
    )
    app = opened(site)
    assert_calm(app)
    assert "Shedding is off" in texts(app)
    assert "no bundles, 100%" not in texts(app)


def test_the_shadow_balancer_records_the_observed_round_once(fleet):
    at_s = datetime_to_ms(fleet.manifest.taken_at) / 1000 - 7.5
    seen = msgspec.structs.replace(predicted(fleet, at_s), strategy="ThresholdShedder")
    shadow = PulsarShadow(observed=lambda: seen)
    rows = shadow.decide(fleet)
    assert rows["taken_at"].to_pylist() == [round(at_s * 1000)]
    assert rows["bundle"].to_pylist() == [seen.unloaded[0]]
    assert rows["probability"].to_pylist() == [1.0]
    assert rows["is_configured"].to_pylist() == [True]
    assert shadow.decide(fleet).num_rows == 0
    stopped = PulsarShadow(observed=lambda: msgspec.structs.replace(seen, at_s=at_s - 600))
    assert stopped.decide(fleet)["taken_at"].to_pylist()[0] == datetime_to_ms(
        fleet.manifest.taken_at
    )
