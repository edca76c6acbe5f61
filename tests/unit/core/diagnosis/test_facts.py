"""Facts among causes: which there are, in which order, and that no headline hides the untried."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fleet_edit import every
from report_cluster import all_reports

from core.diagnosis.facts import ExplainedFindings, fact_headline, headline, with_facts
from core.diagnosis.model import Cause, Diagnosis, Effect, Outcome
from core.diagnosis.request import DEFAULT_SECONDS, DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.findings.finding import Cost, Finding, Fix
from core.findings.verdict import Area, Verdict
from core.snapshot.store import save_snapshot
from dashboard.app_pages.diagnose.model import rows_of, title_of
from dashboard.cli.main import run


def finding(code: str, severity: str = "warning", **more: object) -> Finding:
    fields = {"title": code, "sentence": f"{code}.", "hint": f"Fix {code}.", "area": "serving"}
    return Finding(code=code, severity=severity, **(fields | more))


def verdict(*findings: Finding) -> Verdict:
    return Verdict(findings=findings, areas=(Area(name="load"),))


def proven(code: str, missing: int = 0, keys: tuple[str, ...] = ()) -> Cause:
    before = Outcome(moves=0, returned=0, deviation=0.9, converges=True, rounds=1, missing=missing)
    after = Outcome(moves=3, returned=0, deviation=0.1, converges=True, rounds=2)
    return Cause(code=code, keys=keys, summary=code, effect=Effect(before=before, after=after))


NONE = ExplainedFindings(symptoms=(), by_cause={})


def codes(causes) -> list[str]:
    return [one.code for one in causes]


def test_facts_are_ranked_by_severity_then_by_what_they_cost():
    found = verdict(
        finding("cheap", "error", cost=Cost(bundles=1)),
        finding("dear", "error", cost=Cost(bundles=1, connections=900)),
        finding("later", cost=Cost(bundles=50)),
    )
    assert codes(with_facts((), found, NONE)) == ["dear", "cheap", "later"]


@pytest.mark.parametrize(
    ("area", "more", "place"),
    [
        ("leader", {}, 0),
        ("measurements", {}, 0),
        ("settings", {}, 1),
        ("policies", {}, 1),
        ("measurements", {"code": "observed"}, 1),
        ("measurements", {"code": "observed", "severity": "error"}, 0),
        ("policies", {"cost": Cost(topics=3)}, 0),
        ("settings", {"severity": "error"}, 0),
    ],
)
def test_a_fact_comes_before_what_a_simulation_proves_unless_it_is_a_mere_contradiction(
    area, more, place
):
    code = more.pop("code", "fact")
    explained = NONE._replace(after_proven=("observed",))
    found = verdict(finding(code, area=area, **more))
    causes = with_facts([proven("threshold")], found, explained)
    assert codes(causes).index(code) == place


def test_bundles_that_a_proven_cause_gives_a_broker_come_with_its_cost():
    refused = finding("refused", "error", cost=Cost(connections=40))
    explained = ExplainedFindings(symptoms=(), by_cause={"stuck": ("refused",)})
    [cause] = with_facts([proven("stuck", missing=2)], verdict(refused), explained)
    assert (cause.severity, cause.cost) == ("error", Cost(bundles=2, connections=40))


def test_what_a_proven_cause_costs_is_counted_in_what_the_system_serves():
    dead = finding("node_dead", "error")
    explained = ExplainedFindings(symptoms=(), by_cause={"stuck": ("node_dead",)}, unit="partition")
    [cause] = with_facts([proven("stuck", missing=12)], verdict(dead), explained)
    assert cause.cost == Cost(bundles=12, unit="partition")


def test_symptoms_notes_and_what_is_explained_are_no_causes():
    found = verdict(
        finding("uneven"),
        finding("note", "info"),
        finding("unknown", "unknown"),
        finding("same_key", keys=("minUnloadMessage",)),
    )
    explained = ExplainedFindings(symptoms=("uneven",), by_cause={})
    causes = with_facts([proven("too_small", keys=("minUnloadMessage",))], found, explained)
    assert codes(causes) == ["too_small"]


def test_findings_of_one_kind_are_one_cause_with_all_objects_and_their_cost():
    two = [finding("dead", "error", subject=name, cost=Cost(bundles=4)) for name in ("b-1", "b-2")]
    [cause] = with_facts((), verdict(*two), NONE)
    assert cause.objects == ("b-1", "b-2")
    assert cause.cost.bundles == 8
    assert cause.summary == "dead. And 1 more of this kind."


def test_headline_names_two_kinds_and_counts_the_others():
    first, *_ = causes = with_facts((), verdict(*map(finding, ("a", "b", "c", "d"))), NONE)
    assert fact_headline([first]) == "1 warning: a."
    assert fact_headline(causes[:2]) == "2 warnings: a; b."
    assert fact_headline(causes) == "4 warnings: a; b; 2 more."


def test_the_problem_comes_first_where_its_cause_is_proven():
    seen = verdict(finding("host_load", area="measurements"))
    beside = NONE._replace(after_proven=("host_load",))
    load = "Max deviation is 122%, and shedding is off."
    causes = with_facts([proven("shedding_off")], seen, beside)
    assert headline(causes, load) == f"{load} Also seen: 1 warning: host_load."
    only_seen = with_facts((), seen, beside)
    assert headline(only_seen, load) == f"1 warning: host_load. {load}"
    assert headline((), load) == load


def test_a_fix_with_several_changes_says_so():
    cause = proven("smoothed_usage")
    two = replace(cause, fix=Fix(wanted={"a": 0.2, "b": True}))
    assert title_of(two) == "Smoothed usage (2 changes)"
    assert title_of(replace(cause, fix=Fix(wanted={"a": 0.2}))) == "Smoothed usage"


def test_a_setting_as_a_cause_is_the_object_and_its_change_is_its_value_now_and_with_the_fix():
    fix = Fix(wanted={"ratio": 0.2, "shedding": True})
    present = {"ratio": 0.9, "shedding": False}
    cause = replace(proven("smoothed_usage", keys=("ratio", "shedding")), fix=fix, present=present)
    of_broker = replace(cause, objects=("b-1",))
    switch = replace(cause, keys=("shedding",))
    unknown = replace(cause, present={})
    rows = rows_of(Diagnosis(causes=(cause, of_broker, switch, unknown)))
    assert rows["objects"].tolist() == ["ratio", "b-1", "shedding", "ratio"]
    assert rows["change"].tolist() == ["0.9 → 0.2", "0.9 → 0.2", "false → true", None]


def test_no_headline_is_none_while_something_was_not_tried():
    late = Diagnosis(problem="It is uneven.", tried=32, untried=51, seconds=DEFAULT_SECONDS)
    assert late.answer == "It is uneven. No cause found yet: 51 of 83 changes not simulated."
    assert late.continue_seconds == 60
    two = Diagnosis(problem="P.", causes=(proven("a"), proven("b")), tried=32, untried=51)
    assert two.answer == "P. 2 causes; 51 of 83 changes not simulated."
    pairs = Diagnosis(problem="P.", tried=83, untried_pairs=4)
    assert pairs.answer == "P. No cause found yet: 4 pairs of changes not simulated."
    assert not pairs.is_complete


def test_an_all_clear_needs_a_clear_verdict():
    assert Diagnosis(verdict=verdict()).is_clear
    symptom = Diagnosis(verdict=verdict(finding("uneven")), outlook="It ends even.")
    assert not symptom.is_clear
    assert symptom.answer == "1 warning. uneven. It ends even."


def test_one_budget_holds_where_none_is_named():
    assert DiagnoseRequest().budget_s == DEFAULT_SECONDS
    assert DiagnoseRequest(seconds=5).budget_s == 5


def report(name: str):
    return next(one for one in all_reports("pulsar") if one.name == name).snapshot()


def test_a_limit_of_topics_is_named_however_short_the_time_is():
    [cause] = diagnose(report("1005"), DiagnoseRequest(seconds=1e-6)).causes
    assert (cause.code, cause.effect) == ("topic_limit", None)
    assert dict(cause.fix.wanted) == {"loadBalancerBrokerMaxTopics": 80_000}


def test_a_limit_that_all_brokers_exceed_takes_none_out():
    all_over = every(report("1005"), "brokers", {"topic_count": 62_000})
    found = diagnose(all_over, DiagnoseRequest(seconds=2))
    assert "topic_limit" not in codes(found.causes)


def test_the_effect_of_a_fact_is_null_in_json(tmp_path, capsys):
    save_snapshot(report("1005"), tmp_path / "s")
    assert run(["diagnose", str(tmp_path / "s"), "--seconds", "0.001", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    [cause] = body["causes"]
    assert cause["effect"] is None
    assert set(cause["cost"]) == {"bundles", "topics", "connections"}
    assert {one["area"] for one in body["scope"]} >= {"load", "serving", "leader"}
    assert "Continue with --seconds 10." in body["answer"]
