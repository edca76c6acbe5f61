"""The Diagnose page: causes of both systems, and what leads on from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fleet_builder import make_history
from pegasus_snapshots import snapshot_of, whole
from snapshot_site import Site, assert_calm, texts

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("diagnose"), pegasus=("peg",))
    moment = NOW - timedelta(seconds=5)
    made.put(
        *make_history(2, brokers=4, bundles=60, now=moment), snapshot_of(whole(), taken_at=moment)
    )
    return made


def ready(site: Site, monkeypatch: pytest.MonkeyPatch, **params: str):
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    app = site.open("diagnose", **params)
    for _ in range(100):
        if "hourglass" not in texts(app):
            break
        app.run()
    assert_calm(app)
    return app


def test_a_cause_comes_with_its_effect_and_with_two_ways_on(site, monkeypatch):
    app = ready(site, monkeypatch)
    said = texts(app)
    assert "loadBalancerSheddingEnabled" in said
    assert "trimtab set fleet loadBalancerSheddingEnabled=true" in said
    assert {"Try it", "Plan the change"} <= {button.label for button in app.button}


def test_a_pegasus_cluster_has_its_own_causes(site, monkeypatch):
    said = texts(ready(site, monkeypatch, cluster="peg"))
    assert "broker" not in said.lower()
    assert "simulated" in said or "No problem found" in said
