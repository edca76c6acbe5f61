"""Labels of brokers and nodes: what they are, and where an address gives way to them."""

from __future__ import annotations

import json

import pandas as pd
import plotly.graph_objects as go
import pytest
from fleet_builder import make_snapshot

from connectors.config.model import ClusterConfig
from core.findings.finding import Finding
from core.labels import label_fault, labels_of
from core.pulsar.owners import ownership_of
from core.pulsar.settings import effective_settings
from dashboard import legible
from dashboard.app_pages.pulsar.ownership.model import owned_table
from dashboard.charts.readable import readable
from dashboard.cli import output
from dashboard.components import words
from dashboard.presenters.findings import listed, matching

SERVERS = {"10.0.0.1:8080": "zone-a", "10.0.0.2:8080": None, "b-3.svc.local:8080": "zone-b"}
LABELS = {"10.0.0.1:8080": "one zone-a", "10.0.0.2:8080": "two"}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legible, "_labels_of", lambda: LABELS)


def test_whole_addresses_count_before_hosts_before_patterns() -> None:
    patterns = {"*": "{name} {domain}", "10.0.0.2": "by host", "10.0.0.1:8080": "by address"}
    assert labels_of(patterns, SERVERS) == {
        "10.0.0.1:8080": "by address",
        "10.0.0.2:8080": "by host",
        "b-3.svc.local:8080": "b-3 zone-b",
    }


def test_two_servers_never_have_one_label() -> None:
    found = labels_of({"10.*": "pod"}, SERVERS)
    assert found == {"10.0.0.1:8080": "pod 10.0.0.1:8080", "10.0.0.2:8080": "pod 10.0.0.2:8080"}
    assert labels_of({"*": "{address}"}, SERVERS) == {}


@pytest.mark.parametrize("text", ["{zone}", "{name", "x" * 41, "a\u202eb", " a"])
def test_what_cannot_be_a_label_is_refused(text: str) -> None:
    assert label_fault(text)
    with pytest.raises(ValueError, match=r"the label of 10\.\*"):
        ClusterConfig.model_validate({"name": "a", "zookeeper": "h:2181", "labels": {"10.*": text}})


def test_group_and_tags_are_plain_words() -> None:
    base = {"name": "a", "zookeeper": "h:2181"}
    one = ClusterConfig.model_validate({**base, "group": "eu", "tags": ["gold"]})
    assert (one.group, one.tags) == ("eu", ["gold"])
    for wrong in ({"group": "e u"}, {"tags": ["a,b"]}):
        with pytest.raises(ValueError, match="letters, digits"):
            ClusterConfig.model_validate({**base, **wrong})


@pytest.mark.usefixtures("shown")
def test_tables_charts_and_sentences_have_labels_and_clicks_have_addresses() -> None:
    frame = pd.DataFrame({"broker": list(LABELS), "why": ["", "from 10.0.0.1:8080, then"]})
    table = legible.legible_frame(frame)
    assert list(table["broker"]) == ["one zone-a", "two"]
    assert table["why"][1] == "from one zone-a, then"
    assert list(frame["broker"]) == list(LABELS)  # downloads keep addresses
    assert legible.original("one zone-a") == "10.0.0.1:8080"

    bars = go.Figure(go.Bar(y=list(LABELS), x=[1, 2], hovertext=["10.0.0.2:8080<br>40%", ""]))
    bars.update_yaxes(categoryarray=list(LABELS))
    bars.add_annotation(y="10.0.0.2:8080", text="max")
    drawn = readable(bars)
    assert list(drawn.data[0].y) == ["one zone-a", "two"]
    assert drawn.data[0].hovertext[0] == "two<br>40%"
    assert list(drawn.layout.yaxis.categoryarray) == ["one zone-a", "two"]
    assert drawn.layout.annotations[0].y == "two"

    assert words.plain("10.0.0.1:8080 is at 40%, 10.0.0.11:8080 at 2%").startswith("one zone-a is")
    assert "10.0.0.11" in words.plain("10.0.0.11:8080")
    assert words.coded("run `x --to 10.0.0.1:8080`") == "run `x --to 10.0.0.1:8080`"
    assert legible.labeled("Broker 10.0.0.2:8080", is_full=True) == "Broker two (10.0.0.2:8080)"


@pytest.mark.usefixtures("shown")
def test_filters_find_a_server_by_its_label_too() -> None:
    finding = Finding(
        code="broker_overloaded",
        severity="error",
        subject_kind="broker",
        subject="10.0.0.1:8080",
        title="CPU over the limit",
        sentence="10.0.0.1:8080 is at 93%.",
    )
    rows = listed("c", (finding,), {})
    assert matching(rows, (), "ZONE-A") == matching(rows, (), "10.0.0.1") == rows
    assert matching(rows, (), "two") == []

    snapshot = make_snapshot(brokers=2, bundles=4)
    owners = ownership_of(snapshot, effective_settings(snapshot))
    broker = snapshot.bundles["owner"][0].as_py()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(legible, "_labels_of", lambda: {broker: "pod-seven"})
        _, count = owned_table(owners, "held", "POD-seven", snapshot.manifest.taken_at)
        _, named = owned_table(owners, "held", broker, snapshot.manifest.taken_at)
    assert count == named > 0


def test_commands_have_a_column_of_labels(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("10.0.0.1:8080", "7"), ("10.0.0.9:8080", "8")]
    output.table(("broker", "bundles"), rows)
    assert "label" not in capsys.readouterr().out
    token = output.LABELS.set(LABELS)
    try:
        output.table(("broker", "bundles"), rows)
        output.print_json({"broker": rows[0][0]})
    finally:
        output.LABELS.reset(token)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["broker", "label", "bundles"]
    assert lines[1].split() == ["10.0.0.1:8080", "one", "zone-a", "7"]
    assert json.loads(lines[-1]) == {"broker": "10.0.0.1:8080"}
