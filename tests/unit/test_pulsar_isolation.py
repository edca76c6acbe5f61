"""Isolation policies: parsing, both matchers, failure domains."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from core.pulsar.isolation import (
    governing_policy,
    matcher_differences,
    parse_failure_domains,
    parse_isolation_policies,
)


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
    assert "must not name a port" in difference.sentence
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
        (r"(b)\1", "bb"),
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
