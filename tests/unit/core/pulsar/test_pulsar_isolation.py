"""Isolation policies: parsing, both matchers, failure domains."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from core.pulsar.isolation import (
    governing_policy,
    matcher_differences,
    parse_failure_domains,
    parse_isolation_policies,
)
from core.pulsar.java.pattern import PatternError, PatternSet


def _body(**changes: Any) -> dict[str, Any]:
    return {
        "namespaces": ["acme/.*"],
        "primary": [r"10\.0\.0\.1"],
        "secondary": [r"10\.0\.0\.[23]"],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
        **changes,
    }


def _table(**bodies: Any) -> pa.Table:
    rows = [
        {
            "kind": "isolation",
            "name": name,
            "body": body if isinstance(body, str) else json.dumps(body),
        }
        for name, body in bodies.items()
    ]
    return pa.Table.from_pylist(rows)


def test_a_policy_is_read_with_its_numbers() -> None:
    (policy,), problems = parse_isolation_policies(_table(pay=_body(unload_scope="none")))
    assert problems == ()
    assert (policy.name, policy.min_limit, policy.usage_threshold) == ("pay", 1, 80)
    assert policy.unload_scope == "none"


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "[]",
        _body(primary="10"),
        _body(namespaces=["("]),
        _body(auto_failover_policy=None),
        _body(auto_failover_policy={"parameters": {"min_limit": "one"}}),
        _body(auto_failover_policy=[1]),
    ],
)
def test_an_unreadable_policy_is_named_and_the_others_stay(body: Any) -> None:
    policies, problems = parse_isolation_policies(_table(bad=body, good=_body()))
    assert [policy.name for policy in policies] == ["good"]
    assert "'bad'" in problems[0]


def test_the_first_policy_in_stored_order_governs() -> None:
    policies, _ = parse_isolation_policies(
        _table(wide=_body(namespaces=["acme/.*"]), narrow=_body(namespaces=["acme/orders"]))
    )
    found = governing_policy(policies, "acme/orders")
    assert found is not None
    assert found.name == "wide"
    assert governing_policy(policies, "xacme/orders") is None


@pytest.mark.parametrize(
    ("broker", "role"),
    [("10.0.0.1:8080", "primary"), ("10.0.0.3:8080", "secondary"), ("10.0.0.11:8080", "none")],
)
def test_placement_matches_the_whole_host_and_nothing_else(broker: str, role: str) -> None:
    (policy,), _ = parse_isolation_policies(_table(pay=_body()))
    assert policy.placement_role_of(broker, "4.2") == role


def test_an_expression_with_a_port_leaves_no_broker_before_release_5() -> None:
    (policy,), _ = parse_isolation_policies(_table(pay=_body(primary=[r"10\.0\.0\.1:8080"])))
    assert policy.placement_role_of("10.0.0.1:8080", "4.2") == "none"
    assert policy.placement_role_of("10.0.0.1:8080", "5.0") == "primary"
    (difference,) = matcher_differences([policy], ["10.0.0.1:8080"], "4.2")
    assert (difference.placement_role, difference.rest_role) == ("none", "primary")
    assert "must not contain" in difference.sentence
    assert matcher_differences([policy], ["10.0.0.1:8080"], "5.0") == ()


def test_an_expression_over_hosts_looks_wrong_in_the_rest_view() -> None:
    (policy,), _ = parse_isolation_policies(_table(pay=_body()))
    (difference,) = matcher_differences([policy], ["10.0.0.1:8080"], "4.2")
    assert (difference.placement_role, difference.rest_role) == ("primary", "none")


@pytest.mark.parametrize(
    ("expression", "host"),
    [
        (r"\Q10.0.0.1\E", "10.0.0.1"),
        ("(?<net>10)\\.0\\..*", "10.0.0.9"),
        (r"(?!10\.0\.0\.2).*", "10.0.0.9"),
        (".*", "x"),
    ],
)
def test_expressions_as_java_writes_them_are_understood(expression: str, host: str) -> None:
    (policy,), problems = parse_isolation_policies(_table(pay=_body(primary=["zz", expression])))
    assert problems == ()
    assert policy.role_of(host) == "primary"


def test_alternatives_do_not_leak_into_each_other() -> None:
    (policy,), _ = parse_isolation_policies(_table(pay=_body(primary=["a|b", "c"], secondary=[])))
    assert [policy.role_of(host) for host in ("a", "b", "c", "ac", "bc")] == [
        *("primary", "primary", "primary", "none", "none")
    ]


def test_failure_domains_name_their_brokers() -> None:
    rows = [
        {"kind": "failure_domain", "name": "east", "body": '{"brokers": ["a:1", "b:1"]}'},
        {"kind": "failure_domain", "name": "west", "body": '{"brokers": null}'},
        {"kind": "failure_domain", "name": "odd", "body": "?"},
        {"kind": "isolation", "name": "pay", "body": "{}"},
    ]
    assert parse_failure_domains(pa.Table.from_pylist(rows)) == {"a:1": "east", "b:1": "east"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "expression",
    [
        "(?:[a-z0-9.-]+)+@",
        "(a|a)*@",
        "([a-z]+)*[0-9]+@",
        "(?:a?){40}a{40}@",
        "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)@",
        "(?!(?:[a-z0-9.-]+)+@).*!",
        ".*(?<=(?:a{1,9}){1,9}@)",
        "a*" * 20_000 + "@",
    ],
)
def test_no_expression_of_a_cluster_takes_forever(expression: str) -> None:
    (policy,), problems = parse_isolation_policies(
        _table(bad=_body(primary=[expression], namespaces=[expression]))
    )
    assert problems == ()
    host = "a" * 200 + ".broker-17.example.com"
    assert policy.role_of(host) == "none"
    assert policy.placement_role_of(f"{host}:8080", "5.0") == "none"
    assert not policy.governs(f"{'a' * 300}/orders")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (r"(b)\1", "it has a back reference"),
        ("b++", "it has a possessive quantifier"),
        ("(?:a{1,1000}){1,1000}", "RE2 refuses it"),
        ("(" * 5_000 + "a" + ")" * 5_000, "nested deeper than 100"),
        ("[" * 5_000, "nested deeper than 100"),
        ("a" * 100_000 + ".", "it has 100,001 characters"),
        ("a{,3}", "Illegal repetition"),
        ("[z-a]", "Illegal character range"),
    ],
)
def test_an_expression_that_cannot_be_evaluated_is_named_with_its_policy(
    expression: str, reason: str
) -> None:
    policies, problems = parse_isolation_policies(
        _table(bad=_body(primary=["fine", expression]), good=_body())
    )
    assert [policy.name for policy in policies] == ["good"]
    (sentence,) = problems
    assert "'bad'" in sentence
    assert f"the primary expression '{expression[:20]}" in sentence
    assert reason in sentence
    is_refused_by_java = reason.startswith("Illegal")
    assert sentence.endswith("may ignore it." if is_refused_by_java else "Brokers apply it.")
    assert len(sentence) < 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        "[" + "".join(chr(0x100 + 2 * rank) for rank in range(24_000)) + "]",
        "(?i)[" + "".join(chr(0x100 + 2 * rank) for rank in range(24_000)) + "]",
        "[a&&" + "".join(f"[{chr(0x100 + 2 * rank)}]" for rank in range(16_000)) + "]",
        "[" + "".join(chr(0x100 + 2 * rank) for rank in range(20_000)) + "&&[^a]" * 4_000 + "]",
        "(?i)" + "ab" * 24_000,
    ],
    ids=["class", "folded class", "right side", "intersections", "folded letters"],
)
@pytest.mark.timeout(60)  # seconds of work in linear time, many minutes in quadratic time
def test_a_long_pattern_is_translated_in_linear_time(pattern: str) -> None:
    with suppress(PatternError):
        PatternSet([pattern]).match("broker-1.example")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("(?i)[A&&a]", "A", True),
        ("(?i)[A&&[^a]]", "A", False),
        ("(?i)[a[^b]]", "B", False),
        ("(?i)[^a-c]", "B", False),
        ("(?i)[X-Z&&y]", "Y", True),
        ("[^a&&b]", "a", True),
        ("[a-z&&[def]&&[ef]]", "d", False),
        ("(?i)b", "B", True),
    ],
)
def test_classes_fold_and_intersect(pattern: str, text: str, *, expected: bool) -> None:
    assert PatternSet([pattern]).match(text) == expected


def test_a_pattern_of_too_many_lookarounds_is_refused_by_name() -> None:
    PatternSet(["|".join(f"(?!b)a{rank}" for rank in range(100))])
    with pytest.raises(PatternError, match="more than 100 lookarounds"):
        PatternSet(["|".join(f"(?!b)a{rank}" for rank in range(101))])
