"""Tenants: traffic, storage and limits of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from core.operations.operation import Answer, Cells, Line, Operation
from core.planning.limits.effects import amount
from core.planning.limits.groups import enforcement_words
from core.planning.limits.tenants import Bound, TenantUse, tenant_uses
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.request import Request
from core.units import format_ratio

_MAX_SHOWN: Final = 40
_HEAD: Final = (
    *("tenant", "traffic", "in", "out", "namespaces", "topics", "publish limit", "unlimited"),
)


class TenantsRequest(Request, frozen=True, kw_only=True):
    """All tenants."""


class TenantsJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        cluster: Its name.
        snapshot_id: Snapshot that it was read from.
        tenants: The tenants, the most traffic first.
        note: Whether limits of resource groups are enforced, in words.
    """

    cluster: str
    snapshot_id: str
    tenants: list[dict[str, Any]]
    note: str


@dataclass(frozen=True, eq=False)
class Tenants(Answer):
    """The answer.

    Attributes:
        cluster: Its name.
        snapshot_id: Snapshot that it was read from.
        uses: The tenants, the most traffic first.
        note: Whether limits of resource groups are enforced, in words.
    """

    cluster: str
    snapshot_id: str
    uses: tuple[TenantUse, ...]
    note: str

    def body(self) -> TenantsJson:
        """Return the JSON object."""
        return {
            "cluster": self.cluster,
            "snapshot_id": self.snapshot_id,
            "tenants": [_tenant(use) for use in self.uses],
            "note": self.note,
        }

    def text(self, _: TenantsRequest) -> Iterator[Line]:
        """Return the text for people."""
        shown = self.uses[:_MAX_SHOWN]
        rows = [
            (
                use.name,
                format_ratio(use.share),
                amount(use.rates["msg_rate_in"], "msg/s"),
                amount(use.rates["msg_rate_out"], "msg/s"),
                str(len(use.namespaces)),
                f"{use.topics:,}",
                _bound(use.bounds["publish_msgs"]),
                ", ".join(use.bounds["publish_msgs"].unlimited[:3]),
            )
            for use in shown
        ]
        yield Cells(_HEAD, rows, rest=len(self.uses) - len(shown))
        if any(use.groups for use in self.uses):
            yield self.note


def _bound(bound: Bound) -> str:
    if bound.limit is None or bound.ratio is None:
        return "no limit"
    return f"{amount(bound.limit, 'msg/s')} ({format_ratio(bound.ratio)} used)"


def _tenant(use: TenantUse) -> dict[str, Any]:
    return {
        "tenant": use.name,
        "share": use.share,
        "namespaces": list(use.namespaces),
        "bundles": use.bundles,
        "topics": use.topics,
        **use.rates,
        "silent_bundles": use.silent,
        "storage_bytes": use.storage_bytes,
        "groups": list(use.groups),
        "limits": {
            key: {
                "limit": bound.limit,
                "used": bound.used,
                "ratio": bound.ratio,
                "unlimited": list(bound.unlimited),
                "shared_groups": list(bound.shared_groups),
            }
            for key, bound in use.bounds.items()
        },
    }


def tenants(facts: PulsarFacts, _: TenantsRequest, __: Progress) -> Tenants:
    """Return the tenants of a cluster.

    Raises:
        IncompleteSnapshotError: The snapshot has no bundles.
    """
    return Tenants(
        cluster=facts.snapshot.manifest.cluster,
        snapshot_id=facts.snapshot.snapshot_id,
        uses=tuple(tenant_uses(facts.snapshot)),
        note=enforcement_words(facts.settings)[1],
    )


OPERATION: Final = Operation(
    name="tenants",
    module=__name__,
    help="""Show the traffic of tenants next to their limits.""",
    request=TenantsRequest,
    answers={"pulsar": tenants},
    is_timed=False,
)
