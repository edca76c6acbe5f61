"""Admin REST of limits: resource groups, rates of namespaces, resource quotas of bundles."""

from __future__ import annotations

from http import HTTPMethod
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.bootstrap import encode
from connectors.sandbox.pulsar.policies import RATE_FIELDS
from connectors.sandbox.pulsar.rest.answers import RefusalError, as_json, as_text, nothing
from connectors.sandbox.pulsar.rest.reads import Rest

_GET, _PUT, _POST, _DELETE = HTTPMethod.GET, HTTPMethod.PUT, HTTPMethod.POST, HTTPMethod.DELETE
_GROUP_FIELDS: Final = (
    "publishRateInMsgs",
    "publishRateInBytes",
    "dispatchRateInMsgs",
    "dispatchRateInBytes",
)
_SET: Final = [_POST, _DELETE]


class LimitRest(Rest):
    """Handlers that read and write limits; writes go to ZooKeeper too."""

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        admin = "/admin/v2"
        group = f"{admin}/resourcegroups/{{name}}"
        space = f"{admin}/namespaces/{{tenant}}/{{namespace}}"
        quotas = f"{admin}/resource-quotas"
        bundle = f"{quotas}/{{tenant}}/{{namespace}}/{{bundle}}"
        return [
            Route(f"{admin}/resourcegroups", self.resource_groups),
            Route(group, self.resource_group, methods=[_GET]),
            Route(group, self.set_resource_group, methods=[_PUT]),
            Route(group, self.delete_resource_group, methods=[_DELETE]),
            Route(f"{space}/resourcegroup", self.attached, methods=[_GET]),
            Route(f"{space}/resourcegroup", self.detach, methods=[_DELETE]),
            Route(f"{space}/resourcegroup/{{name}}", self.attach, methods=[_POST]),
            Route(f"{space}/{{rate}}", self.rate, methods=[_GET], name="rate"),
            Route(f"{space}/{{rate}}", self.set_rate, methods=_SET, name="set rate"),
            Route(quotas, self.default_quota, methods=[_GET]),
            Route(quotas, self.set_default_quota, methods=[_POST]),
            Route(bundle, self.quota, methods=[_GET]),
            Route(bundle, self.set_quota, methods=_SET),
        ]

    # --- resource groups --------------------------------------------------------------------

    async def resource_groups(self, _: Request) -> Response:
        """Names of all resource groups."""
        return as_json(sorted(self.engine.policies.resource_groups))

    async def resource_group(self, request: Request) -> Response:
        """One resource group."""
        return as_json(self.engine.policies.resource_groups[self._group(request, 404)])

    async def set_resource_group(self, request: Request) -> Response:
        """Create one, or change the fields that are given; others are left."""
        name, body = request.path_params["name"], await json_body(request)
        for field in _GROUP_FIELDS:
            if not isinstance(body.get(field, 0), int):
                raise RefusalError(400, f"Cannot deserialize {field}: {body[field]!r}")
        groups = self.engine.policies.resource_groups
        held = groups.get(name, dict.fromkeys(_GROUP_FIELDS, -1))
        groups[name] = {field: body.get(field, held[field]) for field in _GROUP_FIELDS}
        await self.engine.admin.put(f"/admin/resourcegroups/{name}", encode(groups[name]))
        return nothing()

    async def delete_resource_group(self, request: Request) -> Response:
        """Delete one that no namespace is attached to."""
        policies = self.engine.policies
        name = self._group(request, 500)
        if name in policies.attached.values():
            raise RefusalError(412, "ResourceGroup is in use")
        del policies.resource_groups[name]
        await self.engine.admin.remove(f"/admin/resourcegroups/{name}")
        return nothing()

    async def attached(self, request: Request) -> Response:
        """Resource group of a namespace; empty without one."""
        group = self.engine.policies.attached.get(self._space(request))
        return nothing() if group is None else as_text(group)

    async def attach(self, request: Request) -> Response:
        """Attach a namespace to a resource group."""
        name = self._space(request)
        self.engine.policies.attached[name] = self._group(request, 412)
        await self._write(name)
        return nothing()

    async def detach(self, request: Request) -> Response:
        """Detach a namespace from its resource group."""
        name = self._space(request)
        if self.engine.policies.attached.pop(name, None) is not None:
            await self._write(name)
        return nothing()

    def _group(self, request: Request, status: int) -> str:
        name: str = request.path_params["name"]
        if name not in self.engine.policies.resource_groups:
            raise RefusalError(status, "ResourceGroup does not exist")
        return name

    # --- rates ------------------------------------------------------------------------------

    async def rate(self, request: Request) -> Response:
        """A rate of a namespace; empty where it is not set."""
        field = self._field(request)
        rate = self.engine.policies.rates.get(self._space(request), {}).get(field)
        return nothing() if rate is None else as_json(rate)

    async def set_rate(self, request: Request) -> Response:
        """Set a rate of a namespace, or take it away."""
        name, field = self._space(request), self._field(request)
        rates = self.engine.policies.rates.setdefault(name, {})
        if request.method == _DELETE:
            rates.pop(field, None)
        else:
            rates[field] = await json_body(request)
        await self._write(name)
        return nothing()

    def _field(self, request: Request) -> str:
        resource = request.path_params["rate"]
        if resource not in RATE_FIELDS:
            raise RefusalError(404, "HTTP 404 Not Found")
        return RATE_FIELDS[resource]

    def _space(self, request: Request) -> str:
        path = request.path_params
        name = f"{path['tenant']}/{path['namespace']}"
        if name not in self.state.namespace_row:
            raise RefusalError(404, "Namespace does not exist")
        return name

    async def _write(self, name: str) -> None:
        bounds = self.state.boundaries[self.state.namespace_row[name]]
        whole = self.engine.policies.document(name, bounds, self.engine.options.cluster)
        await self.engine.admin.put(f"/admin/policies/{name}", encode(whole))

    # --- quotas -----------------------------------------------------------------------------

    async def default_quota(self, _: Request) -> Response:
        """Quota of bundles that have none of their own."""
        return as_json(self._common)

    async def set_default_quota(self, request: Request) -> Response:
        """Change the quota of bundles that have none of their own."""
        await self._keep_quota("default", await json_body(request))
        return nothing()

    async def quota(self, request: Request) -> Response:
        """Quota of a bundle: everybody's where it has none of its own."""
        name = self.state.names[self.bundle_row(request)]
        return as_json(self.engine.policies.quotas.get(name, self._common))

    async def set_quota(self, request: Request) -> Response:
        """Set a bundle's own quota, or take it away."""
        name = self.state.names[self.bundle_row(request)]
        if request.method == _DELETE:
            self.engine.policies.quotas.pop(name, None)
            await self.engine.admin.remove(f"/loadbalance/resource-quota/{name}")
        else:
            await self._keep_quota(name, await json_body(request))
        return nothing()

    async def _keep_quota(self, name: str, body: dict[str, Any]) -> None:
        whole = {**documents.DEFAULT_QUOTA, **body}
        self.engine.policies.quotas[name] = whole
        await self.engine.admin.put(f"/loadbalance/resource-quota/{name}", encode(whole))

    @property
    def _common(self) -> documents.Json:
        return self.engine.policies.quotas.get("default", documents.DEFAULT_QUOTA)


async def json_body(request: Request) -> dict[str, Any]:
    """Return the body of a request.

    Raises:
        RefusalError: It is no JSON object.
    """
    try:
        return msgspec.json.decode(await request.body(), type=dict[str, Any])
    except msgspec.DecodeError as exc:
        raise RefusalError(400, str(exc)) from exc
