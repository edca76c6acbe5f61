"""Isolation & domains: who may serve what, what is wrong, and changes seen through before sent."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from core.ids import host_of
from core.snapshot import PulsarSnapshot
from dashboard import state


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def fleet(site):
    snapshot = make_snapshot(brokers=6, bundles=80, now=now())
    site.put(snapshot)
    return snapshot


def isolation(spaces: list[str], primary: list[str], least: int = 1, **more: object) -> str:
    parameters = {"min_limit": str(least), "usage_threshold": "80"}
    failover = {"policy_type": "min_available", "parameters": parameters}
    body = {"namespaces": spaces, "primary": primary, "secondary": []}
    return json.dumps({**body, "auto_failover_policy": failover, **more})


def host(fleet: PulsarSnapshot, at: int) -> str:
    return host_of(fleet.brokers["broker"][at].as_py()).replace(".", r"\.")


def spaces(fleet: PulsarSnapshot) -> list[str]:
    names = sorted(set(fleet.bundles["namespace"].to_pylist()))
    return [name for name in names if name.startswith(("acme/", "globex/", "initech/"))]


def put(site: Site, fleet: PulsarSnapshot, *rows: tuple[str, str, str]) -> None:
    """Keep the same fleet with other policies."""
    table = pa.Table.from_pylist(
        [dict(zip(("kind", "name", "body"), row, strict=True)) for row in rows],
        schema=fleet.policies.schema,
    )
    later = replace(fleet.manifest, taken_at=fleet.manifest.taken_at + timedelta(seconds=1))
    site.put(PulsarSnapshot.build(later, {**fleet.tables, "policies": table}))


def conflicts(app):
    """The table of findings."""
    return next(one.value for one in app.dataframe if "finding" in one.value)


def explained(app, code: str):
    """Open the explanation of the first finding; its code is that of the table's first row."""
    first = conflicts(app).iloc[0]
    app.session_state["_isolation_opened"] = ("fleet", code, first["object"])
    app.run()
    assert_calm(app)
    return app


def test_the_page_tells_who_may_serve_what_and_what_lies_wrong(site, fleet):
    app = site.open("isolation")
    assert_calm(app)
    said = texts(app)
    figures = {one.label: (one.value, one.delta) for one in app.metric}
    assert figures["Isolation policies"] == ("1", "for 1 namespace")
    assert figures["Isolated brokers"] == ("2", "of 6")
    assert "first-third" in said
    assert "secondary (standby)" in said
    heads = next(one.value for one in app.dataframe if "misplaced" in one.value).columns
    assert "2 primary brokers" in heads
    assert not [head for head in heads if " + " in head]  # an address and a number say no role
    app = explained(app, "isolation_violated")
    assert any(one.label.startswith("Preview unload of") for one in app.button)


def test_a_namespace_is_asked_about_by_the_address(site, fleet):
    app = site.open("isolation", namespace=spaces(fleet)[-1])
    field = next(one for one in app.text_input if one.label == "Namespace")
    assert field.proto.label_visibility.value == field.proto.label_visibility.VISIBLE
    assert_calm(app)
    assert "(by first-third)" in texts(app)
    app = site.open("isolation", namespace="acme/nowhere")
    assert "nowhere" in " ".join(one.value for one in app.error)


@pytest.mark.parametrize("view", ["Groups", "Domains"])
def test_groups_and_domains_are_told(site, fleet, view):
    app = site.open("isolation", view=view)
    assert_calm(app)
    assert app.session_state[state.VIEW] == view
    assert ("pair" if view == "Groups" else "zone-a") in texts(app)


def test_a_change_is_seen_through_and_can_be_applied_with_its_unloads(site, fleet):
    site.worker_says()
    body = isolation([spaces(fleet)[0]], [host(fleet, 3)])
    app = site.open("isolation", change=[f"set isolation apart {body}"])
    assert_calm(app)
    said = texts(app)
    assert "before and after" in said
    assert "Expected destinations" in said
    assert "unloaded by brokers" in said
    assert f"{host(fleet, 3).replace(chr(92), '')}:8080" in said
    site.worker_says()  # once more: it counts as silent after some seconds
    box = next(one for one in app.checkbox if "misplaced" in one.label)
    box.check().run()
    assert_calm(app)
    button = next(one for one in app.button if one.label == "Apply plan…")
    assert not button.disabled
    button.click().run()
    assert_calm(app)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("set isolation x {NOBODY}", "Neither primary"),
        ("set isolation x {STRANDED}", "no eligible broker"),
        ("set isolation x {OVERLAP}", "matched by isolation policy first-third"),
        ("set isolation x {REGEX}", "Unclosed group near index 1"),
        ("set isolation x {SCOPE}", "unload_scope is"),
        ('set failure_domain zone-z {"brokers":["10.9.9.9:8080"]}', "is registered"),
        ('set failure_domain zone-z {"brokers":["BROKER"]}', "is already in failure domain"),
        ("set anti_affinity acme/nowhere apart", "does not exist"),
        ("set isolaton x {}", "isolation"),
    ],
)
def test_what_would_do_harm_is_refused_in_a_sentence(site, fleet, change, words):
    known = spaces(fleet)
    bodies = {
        "{NOBODY}": isolation(["nobody/.*"], ["nowhere"]),
        "{STRANDED}": isolation([known[0]], ["nowhere"]),
        "{OVERLAP}": isolation([".*"], [host(fleet, 5)]),
        "{REGEX}": isolation(["("], [host(fleet, 5)]),
        "{SCOPE}": isolation([known[0]], [host(fleet, 5)], unload_scope="some"),
        "BROKER": fleet.brokers["broker"][0].as_py(),
    }
    for stand_in, text in bodies.items():
        change = change.replace(stand_in, text)
    app = site.open("isolation", change=[change])
    assert not app.exception
    assert words in " ".join(one.value for one in app.error).replace("\\", "")
    assert not any(one.label == "Apply plan…" and not one.disabled for one in app.button)


def test_form_adds_a_change_and_nothing_is_sent(site, fleet):
    app = site.open("isolation", policy="first-third")
    assert_calm(app)
    fewest = next(one for one in app.number_input if "min_limit" in one.label)
    fewest.set_value(3).run()
    next(one for one in app.button if one.label == "Preview change").click().run()
    assert_calm(app)
    said = texts(app)
    assert "Min primaries (min_limit)" in said
    assert "first-third" in said
    assert "min_limit 3" in " ".join(one.value for one in app.warning).replace("\\", "")


def test_overlaps_and_brokers_of_two_domains_are_violations(site, fleet):
    brokers, known = fleet.brokers["broker"].to_pylist(), spaces(fleet)
    put(
        site,
        fleet,
        ("failure_domain", "zone-a", json.dumps({"brokers": brokers[:2]})),
        ("failure_domain", "zone-b", json.dumps({"brokers": brokers[1:3]})),
        ("isolation", "one", isolation([known[0]], [host(fleet, 0)], least=2)),
        ("isolation", "two", isolation(["acme/.*"], [host(fleet, 1)])),
        ("isolation", "idle", isolation(["nobody/.*"], [host(fleet, 2)])),
    )
    app = site.open("isolation")
    assert_calm(app)
    found = conflicts(app)
    assert set(found["severity"].map(tuple)) <= {("✖ Error",), ("▲ Warning",), ("○ Note",)}
    assert {"one", "idle", brokers[1]} <= set(found["object"])
    figures = {one.label: one for one in app.metric}
    assert int(figures["Findings"].value) == len(found)
    assert "1 error" in figures["Findings"].delta or "warning" in figures["Findings"].delta


def test_what_mends_a_finding_goes_into_the_changes_and_the_form(site, fleet):
    ported = isolation([spaces(fleet)[0]], [f"{host(fleet, 0)}:8080"])
    put(site, fleet, ("isolation", "ported", ported))
    app = explained(site.open("isolation"), "isolation_port_in_regex")
    fix = next(one for one in app.button if (one.key or "").startswith("_fix_"))
    fix.click().run()
    assert_calm(app)
    change = "".join(app.query_params[state.CHANGE])
    assert change.startswith("set isolation ported ")
    assert json.loads(change.split(" ", 3)[3])["primary"] == [host(fleet, 0)]
    form = next(one for one in app.multiselect if "(primary)" in one.label)
    assert form.value == [host(fleet, 0)]
    assert app.session_state[state.VIEW] == "Edit policy"


def test_a_cluster_without_policies_says_so(site, fleet):
    put(site, fleet)
    app = site.open("isolation")
    assert_calm(app)
    figures = {one.label: (one.value, one.delta) for one in app.metric}
    assert figures["Isolation policies"] == ("0", "for 0 namespaces")
    assert figures["Isolated brokers"] == ("0", "of 6")
