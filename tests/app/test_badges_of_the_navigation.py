"""Badges of the navigation: an entry's number is that of the findings which its page lists."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from pegasus_snapshots import NODES, part_row, snapshot_of, whole
from snapshot_site import APP, RememberingPages, Site, assert_calm, now

from core.ids import host_of
from core.snapshot import PulsarSnapshot
from dashboard.presenters.findings import SEVERITY_WORDS

LISTED = {
    "": ("fleet", ""),
    "brokers": ("brokers", "view"),
    "policies": ("policies", ""),
    "settings": ("settings", "view"),
    "pegasus": ("pegasus", "tab"),
}
"""Address of an entry to the page that it leads to, and the parameter of its tab *Findings*."""
URGENT = (SEVERITY_WORDS["error"], SEVERITY_WORDS["warning"])


@pytest.fixture
def site(tmp_path, monkeypatch) -> Site:
    made = Site(tmp_path, clusters=("fleet",), pegasus=("peg",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    fleet = make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet")
    namespace = fleet.bundles["namespace"][0].as_py()
    primary = host_of(fleet.brokers["broker"][3].as_py()).replace(".", r"\.")
    policy = {
        "namespaces": [namespace],
        "primary": [primary],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    rows = [{"kind": "isolation", "name": "apart", "body": json.dumps(policy)}]
    table = pa.Table.from_pylist(rows, schema=fleet.policies.schema)
    degraded = whole()
    degraded["partitions"][1] = part_row(2, 1, NODES[3], [NODES[0]])
    made.put(
        PulsarSnapshot.build(fleet.manifest, {**fleet.tables, "policies": table}),
        snapshot_of(degraded, taken_at=now()),
    )
    return made


def badges(site: Site) -> dict[str, int]:
    """Return the number at each entry that has one; they are counted in the background."""
    for _ in range(50):
        assert_calm(site.open("fleet"))
        titles = {
            page["url_pathname"]: page["page_name"]
            for page in RememberingPages.known[str(APP)].values()
        }
        found = {
            name: int(match[1])
            for name, title in titles.items()
            if name not in ("alerts", "fleet") and (match := re.search(r"-badge\[(\d+)\]", title))
        }
        if found:
            return found
    raise AssertionError("no badge")


def urgent_rows(site: Site, page: str, tab: str) -> int:
    """Return the errors and warnings that a page lists."""
    app = site.open(page, **({tab: "Findings"} if tab else {}))
    assert_calm(app)
    frames = [one.value for one in app.dataframe if {"severity", "action"} <= set(one.value)]
    return sum(row[0] in URGENT for frame in frames for row in frame["severity"])


def test_each_badge_is_the_number_of_findings_on_its_page(site) -> None:
    found = badges(site)
    assert found["policies"] > 0
    assert found.keys() <= LISTED.keys(), "an entry with a badge leads to no list of findings"
    counted = {name: urgent_rows(site, *place) for name, place in LISTED.items()}
    assert {name: count for name, count in counted.items() if count} == found
