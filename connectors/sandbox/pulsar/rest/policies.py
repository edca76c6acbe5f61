"""Admin REST of what operators configure: isolation, domains, groups, settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from http import HTTPMethod
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.bootstrap import encode
from connectors.sandbox.pulsar.rest.answers import (
    JSON_TYPE,
    RefusalError,
    as_json,
    as_text,
    container_page,
    nothing,
)
from connectors.sandbox.pulsar.rest.limits import json_body
from connectors.sandbox.pulsar.rest.reads import Rest
from core.pulsar.isolation import UNREADABLE, matcher_of
from core.pulsar.java.pattern import UnsupportedPatternError

_POLICY_FIELDS: Final = ("namespaces", "primary", "secondary", "auto_failover_policy")
_SCOPE: Final = "unload_scope"
_GET, _POST, _DELETE = HTTPMethod.GET, HTTPMethod.POST, HTTPMethod.DELETE


class PolicyRest(Rest):
    """Handlers that read and write policies; writes go to ZooKeeper too."""

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        admin = "/admin/v2"
        cluster = f"{admin}/clusters/{{cluster}}"
        isolation = f"{cluster}/namespaceIsolationPolicies"
        group = f"{admin}/namespaces/{{tenant}}/{{namespace}}/antiAffinity"
        setting = f"{admin}/brokers/configuration"
        return [
            Route(f"{admin}/clusters", self.clusters),
            Route(cluster, self.cluster),
            Route(isolation, self.isolation),
            Route(f"{isolation}/brokers", self.isolation_brokers),
            Route(f"{isolation}/brokers/{{broker}}", self.isolation_broker),
            Route(f"{isolation}/{{policy}}", self.isolation_policy, methods=[_GET]),
            Route(f"{isolation}/{{policy}}", self.set_isolation, methods=[_POST]),
            Route(f"{isolation}/{{policy}}", self.delete_isolation, methods=[_DELETE]),
            Route(f"{cluster}/failureDomains", self.domains),
            Route(f"{cluster}/failureDomains/{{domain}}", self.domain, methods=[_GET]),
            Route(f"{cluster}/failureDomains/{{domain}}", self.set_domain, methods=[_POST]),
            Route(f"{cluster}/failureDomains/{{domain}}", self.delete_domain, methods=[_DELETE]),
            Route(f"{admin}/namespaces/{{cluster}}/antiAffinity/{{group}}", self.group_members),
            Route(group, self.group, methods=[_GET]),
            Route(group, self.set_group, methods=[_POST]),
            Route(group, self.delete_group, methods=[_DELETE]),
            Route(f"{setting}/{{name}}/{{value:path}}", self.set_setting, methods=[_POST]),
            Route(f"{setting}/{{name}}", self.delete_setting, methods=[_DELETE]),
        ]

    async def clusters(self, _: Request) -> Response:
        """All clusters: one."""
        return as_json([self.engine.options.cluster])

    async def cluster(self, request: Request) -> Response:
        """Address of the cluster."""
        if request.path_params["cluster"] != self.engine.options.cluster:
            raise RefusalError(404, "Cluster does not exist")
        return as_json(documents.cluster(self.state.brokers[0]))

    # --- isolation --------------------------------------------------------------------------

    async def isolation(self, request: Request) -> Response:
        """All isolation policies; 404 until there was one."""
        return as_json(self._isolation(request))

    async def isolation_policy(self, request: Request) -> Response:
        """One isolation policy."""
        name, cluster = request.path_params["policy"], request.path_params["cluster"]
        policy = self._isolation(request).get(name)
        if policy is None:
            raise RefusalError(
                404, f"Cannot find NamespaceIsolationPolicy {name} for cluster {cluster}"
            )
        return as_json(policy)

    async def isolation_brokers(self, request: Request) -> Response:
        """Policy role of each active broker; matches the whole ``host:port``."""
        policies = self._isolation(request)
        names = [broker.broker_id for broker in self.state.brokers if broker.is_up]
        return as_json([_seen_by(policies, name) for name in names])

    async def isolation_broker(self, request: Request) -> Response:
        """Policy role of one broker; any name is accepted."""
        return as_json(_seen_by(self._isolation(request), request.path_params["broker"]))

    async def set_isolation(self, request: Request) -> Response:
        """Create or replace a policy; namespaces are unloaded as its scope says."""
        self.need_cluster(request)
        name, body = request.path_params["policy"], await json_body(request)
        if not _is_valid(body):
            shown = msgspec.json.format(encode(body), indent=2).decode()
            reason = f"Invalid format of input policy data. policy: {name}; data: {shown}"
            raise RefusalError(400, reason)
        policies = self.engine.policies
        stored = {
            field: body[field] for field in (*_POLICY_FIELDS, _SCOPE) if body.get(field) is not None
        }
        old = (policies.isolation or {}).get(name)
        policies.isolation = {**(policies.isolation or {}), name: stored}
        await self._write_isolation()
        is_unloaded = broker_matcher(_unloaded_by(stored, old))
        for row in range(len(self.state.namespaces)):
            if is_unloaded(self.state.namespaces[row]):
                for bundle in self.state.bundles_of[row].tolist():
                    self.engine.spawn(self.ownership.unload(bundle))
        return nothing()

    async def delete_isolation(self, request: Request) -> Response:
        """Delete a policy; one that is not there is all right."""
        self.need_cluster(request)
        policies = self._isolation(request)
        policies.pop(request.path_params["policy"], None)
        await self._write_isolation()
        return nothing()

    def _isolation(self, request: Request) -> dict[str, Any]:
        self.need_cluster(request)
        policies = self.engine.policies.isolation
        if policies is None:
            cluster = request.path_params["cluster"]
            raise RefusalError(
                404, f"NamespaceIsolationPolicies for cluster {cluster} does not exist"
            )
        return policies

    async def _write_isolation(self) -> None:
        path = f"/admin/clusters/{self.engine.options.cluster}/namespaceIsolationPolicies"
        self.engine.load_manager.look_again()
        await self.engine.admin.put(path, encode(self.engine.policies.isolation))

    # --- failure domains --------------------------------------------------------------------

    async def domains(self, request: Request) -> Response:
        """All failure domains."""
        self.need_cluster(request)
        return as_json(self.engine.policies.domains)

    async def domain(self, request: Request) -> Response:
        """One failure domain."""
        self.need_cluster(request)
        return as_json(self.engine.policies.domains[self._domain(request)])

    async def set_domain(self, request: Request) -> Response:
        """Create or replace a failure domain; a broker is in one only."""
        self.need_cluster(request)
        name, body = request.path_params["domain"], await json_body(request)
        for other, domain in self.engine.policies.domains.items():
            shared = sorted(set(domain["brokers"]) & set(body.get("brokers", [])))
            if other != name and shared:
                raise RefusalError(409, f"[{', '.join(shared)}] already exists in {other}")
        self.engine.policies.domains[name] = {"brokers": list(body.get("brokers", []))}
        self.engine.load_manager.look_again()
        await self.engine.admin.put(
            self._domain_path(name), encode(self.engine.policies.domains[name])
        )
        return nothing()

    async def delete_domain(self, request: Request) -> Response:
        """Delete a failure domain."""
        self.need_cluster(request)
        name = self._domain(request)
        del self.engine.policies.domains[name]
        self.engine.load_manager.look_again()
        await self.engine.admin.remove(self._domain_path(name))
        return nothing(200)

    def _domain(self, request: Request) -> str:
        name: str = request.path_params["domain"]
        if name not in self.engine.policies.domains:
            cluster = request.path_params["cluster"]
            raise RefusalError(404, f"Domain {name} for cluster {cluster} does not exist")
        return name

    def _domain_path(self, name: str) -> str:
        return f"/admin/clusters/{self.engine.options.cluster}/failureDomain/{name}"

    # --- anti-affinity ----------------------------------------------------------------------

    async def group(self, request: Request) -> Response:
        """Group of a namespace; empty without one."""
        path = request.path_params
        group = self.engine.policies.groups.get(f"{path['tenant']}/{path['namespace']}")
        return Response() if group is None else as_text(group)

    async def set_group(self, request: Request) -> Response:
        """Set the group to the unchanged body, including quotation marks."""
        if request.headers.get("content-type", "").partition(";")[0] != JSON_TYPE:
            return container_page(request.url.path, 415)
        path = request.path_params
        name = f"{path['tenant']}/{path['namespace']}"
        self.engine.policies.groups[name] = (await request.body()).decode("utf-8", "replace")
        await self._write_local(name)
        return nothing()

    async def delete_group(self, request: Request) -> Response:
        """Take a namespace out of its group."""
        path = request.path_params
        name = f"{path['tenant']}/{path['namespace']}"
        if self.engine.policies.groups.pop(name, None) is not None:
            await self._write_local(name)
        return nothing()

    async def group_members(self, request: Request) -> Response:
        """Namespaces of a tenant that are in a group."""
        tenant = request.query_params.get("tenant")
        if tenant is None:
            raise RefusalError(400, "Tenant should not be null")
        self.need_cluster(request)
        wanted = request.path_params["group"].lower()
        groups = self.engine.policies.groups.items()
        members = [name for name, group in groups if group.lower() == wanted]
        return as_json(sorted(name for name in members if name.startswith(f"{tenant}/")))

    async def _write_local(self, name: str) -> None:
        self.engine.load_manager.look_again()
        row = self.state.namespace_row.get(name)
        if row is not None:
            group = self.engine.policies.groups.get(name)
            value = documents.local_policies(self.state.boundaries[row], group)
            await self.engine.admin.put(f"/admin/local-policies/{name}", encode(value))

    # --- settings ---------------------------------------------------------------------------

    async def set_setting(self, request: Request) -> Response:
        """Set a dynamic setting; the value is stored whatever it is."""
        name = request.path_params["name"]
        if name not in self.engine.policies.dynamic_names:
            raise RefusalError(412, "Can't update non-dynamic configuration")
        self.engine.policies.dynamic[name] = request.path_params["value"]
        await self._write_dynamic()
        return nothing(200)

    async def delete_setting(self, request: Request) -> Response:
        """Take a dynamic setting back."""
        name = request.path_params["name"]
        if name not in self.engine.policies.dynamic_names:
            raise RefusalError(412, "Can't delete non-dynamic configuration")
        self.engine.policies.dynamic.pop(name, None)
        await self._write_dynamic()
        return nothing(200)

    async def _write_dynamic(self) -> None:
        await self.engine.admin.put("/admin/configuration", encode(self.engine.policies.dynamic))


def _seen_by(policies: dict[str, Any], broker: str) -> dict[str, Any]:
    for name, policy in policies.items():
        is_primary = broker_matcher(policy["primary"])(broker)
        if is_primary or broker_matcher(policy["secondary"])(broker):
            return {
                "brokerName": broker,
                "policyName": name,
                "namespaceRegex": policy["namespaces"],
                "primary": is_primary,
            }
    return {"brokerName": broker, "namespaceRegex": [], "primary": False}


def _unloaded_by(new: dict[str, Any], old: dict[str, Any] | None) -> set[str]:
    """Return the expressions over namespaces that are unloaded when a policy is set.

    Source:
        Pulsar 4.2 ``ClustersBase#filterAndUnloadMatchedNamespaceAsync``.
    """
    scope = new.get(_SCOPE, "changed")
    if scope == "none":
        return set()
    mine, theirs = set(new["namespaces"]), set(old["namespaces"] if old else ())
    has_other_primaries = old is not None and sorted(old["primary"]) != sorted(new["primary"])
    return mine | theirs if scope == "all_matching" or has_other_primaries else mine ^ theirs


def _is_valid(body: dict[str, Any]) -> bool:
    failover = body.get("auto_failover_policy")
    if not isinstance(failover, dict) or failover.get("policy_type") != "min_available":
        return False
    if not {"min_limit", "usage_threshold"} <= set(failover.get("parameters", {})):
        return False
    if body.get(_SCOPE) not in (None, "changed", "all_matching", "none"):
        return False
    if not body.get("namespaces") or not body.get("primary") or body.get("secondary") is None:
        return False
    try:
        broker_matcher((*body["namespaces"], *body["primary"], *body["secondary"]))
    except UNREADABLE:
        return False
    return True


def broker_matcher(expressions: Iterable[str]) -> Callable[[str], bool]:
    """Return a matcher of whole texts, as in ``java.util.regex``.

    The product evaluates patterns in linear time and refuses what that cannot express, a back
    reference for example. Brokers accept such a pattern, so the sandbox stores it and answers with
    Python's own engine; its placement uses the product's view, which leaves the policy out.

    Raises:
        PatternError: Java refuses one of them as well.
    """
    matchers = [_matcher(one) for one in expressions]
    return lambda text: any(matches(text) for matches in matchers)


def _matcher(expression: str) -> Callable[[str], bool]:
    try:
        return matcher_of((expression,))
    except UnsupportedPatternError:
        pass
    try:
        pattern = re.compile(expression, re.ASCII)
    except re.error:  # Java takes it, Python has nothing like it
        return lambda _: False
    return lambda text: pattern.fullmatch(text) is not None
