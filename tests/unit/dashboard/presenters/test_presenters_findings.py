"""Findings as rows: what they open, since when they are known, and the row of key figures."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from dashboard.components.pulsar.system import PULSAR
from dashboard.components.tables import deviation_bars
from dashboard.legible import legible_frame
from dashboard.presenters.figures import band_status
from dashboard.presenters.findings import (
    NONE,
    evidence_frames,
    file_frame,
    findings_frame,
    listed,
    matching,
)
from dashboard.sitemap import FILES

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
LINKS = PULSAR.finding_links
HOT = Finding(
    code="broker_overloaded",
    severity="error",
    subject_kind="broker",
    subject="b1:8080",
    title="NIC out over the overload limit",
    sentence="b1:8080 is at 93% of its NIC out.",
    measured=Quantity(0.93, "ratio"),
    limit=Quantity(0.85, "ratio"),
    evidence={"usage_ratio": 0.93, "rows": [{"broker": "b1:8080"}]},
)
NOTE = Finding(code="no_shedding", severity="info", title="Shedding is off", sentence="Off.")


def test_rows_are_worst_first_with_measured_limit_and_since():
    rows = listed("c", (NOTE, replace(HOT, since=NOW - timedelta(minutes=41))), LINKS)
    frame = findings_frame(matching(rows, (), ""), NOW)
    first = frame.iloc[0]
    assert first["severity"] == ["✖ Error"]
    assert (first["object"], first["measured"], first["limit"]) == ("b1:8080", "93%", "85%")
    assert (first["since"], first["action"]) == ("41 min", "Unload…")
    last = frame.iloc[1]
    assert (last["object"], last["measured"], last["since"]) == ("c", NONE, NONE)


def test_finding_of_several_servers_names_them_and_not_the_cluster():
    several = replace(NOTE, servers=("b1:8080", "b2:8080", "b3:8080"))
    (one,) = listed("c", (several,), LINKS)
    assert one.object == "b1:8080 +2"
    assert one.identity == ("c", "no_shedding", "c")  # the same when another broker joins


@pytest.mark.parametrize(
    ("severities", "text", "codes"),
    [
        (("info",), "", ["no_shedding"]),
        ((), "B1:80", ["broker_overloaded"]),
        ((), "no such", []),
    ],
)
def test_findings_are_filtered_by_severity_and_by_any_text(severities, text, codes):
    found = matching(listed("c", (HOT, NOTE), LINKS), severities, text)
    assert [one.finding.code for one in found] == codes


def test_a_finding_opens_its_object_and_what_can_be_done():
    assert LINKS.target(HOT) == ("broker", {"broker": "b1:8080"})
    assert LINKS.action(HOT) == ("Unload…", "broker", {"broker": "b1:8080"})
    assert LINKS.target(NOTE) == ("brokers", {})
    assert LINKS.action(NOTE) is None
    pages = {page for page, _ in LINKS.subjects.values()} | {
        one.page for one in LINKS.actions.values()
    }
    assert pages <= set(FILES)


def test_a_file_has_the_numbers_and_the_sentences():
    frame = file_frame(listed("c", (HOT,), LINKS))
    assert frame["measured"][0] == 0.93
    assert frame["unit"][0] == "ratio"
    assert frame["sentence"][0] == HOT.sentence


def test_evidence_is_facts_and_rows():
    facts, rows = evidence_frames(HOT)
    assert facts.to_dict("records") == [{"fact": "usage ratio", "value": "0.93"}]
    assert rows.to_dict("records") == [{"broker": "b1:8080"}]


def test_bars_of_deviations_are_pictures_that_a_table_shows_uncut():
    bars = deviation_bars([1.2, -0.5, 0.0, None, float("nan")], 0.2)
    assert [bar is None for bar in bars] == [False, False, False, True, True]
    assert len(set(bars[:3])) == 3
    shown = legible_frame(pd.DataFrame({"bar": bars}))
    assert shown["bar"].tolist()[:3] == bars[:3]
    assert deviation_bars([], 0.2) == []


@pytest.mark.parametrize(
    ("value", "status"),
    [(0.2, "ok"), (0.3, "warning"), (0.5, "bad"), (-0.9, "warning"), (None, "unknown")],
)
def test_a_deviation_is_judged_against_the_band(value, status):
    assert band_status(value, 0.2) == status


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1, "brokers", "1 broker"),
        (0, "bundles", "0 bundles"),
        (27, "bundles", "27 bundles"),
        (1, "s", "1 s"),
        (25_180, "s", "7 h"),
        (400, "level", "level 400"),
    ],
)
def test_a_quantity_agrees_with_its_number(value, unit, text):
    assert Quantity(value, unit).text == text
