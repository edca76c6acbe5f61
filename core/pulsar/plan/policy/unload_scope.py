"""What brokers unload by themselves when an isolation policy is set.

Since 4.0 only namespaces whose placement changes are unloaded unless the policy's ``unload_scope``
says otherwise; earlier releases unload every namespace that the new policy matches. Removing a
policy unloads nothing in any release.

Source: Pulsar ``ClustersBase#filterAndUnloadMatchedNamespaceAsync``; PIP-369.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from core.errors import InputError
from core.pulsar.isolation import UNREADABLE, matcher_of
from core.pulsar.policy_kinds import PolicyChange, policy_kind
from core.pulsar.view import LoadView
from core.units import is_whole

UnloadScope = Literal["changed", "all_matching", "none"]
SCOPES: Final[tuple[UnloadScope, ...]] = ("changed", "all_matching", "none")
"""Values of ``unload_scope``; ``changed`` is meant where it is left out."""

SCOPE_WORDS: Final = {
    "changed": "namespaces matched by added or removed expressions; if the primaries "
    "changed, all that the old or the new policy matches",
    "all_matching": "every namespace that the old or the new policy matches",
    "none": "nothing: bundles stay until they are unloaded",
}
_FIRST_WITH_SCOPE: Final = 4


def has_scope(view: LoadView) -> bool:
    """Return whether the brokers support ``unload_scope``; true for unknown versions."""
    return all(_major(version) >= _FIRST_WITH_SCOPE for version in view.versions if version)


def unloaded_namespaces(view: LoadView, changes: Sequence[PolicyChange]) -> tuple[str, ...]:
    """Return the namespaces that brokers unload by themselves, in order.

    Args:
        view: The cluster as it is before the steps.
        changes: Of one plan; expressions that cannot be read unload nothing here.
    """
    names: set[str] = set()
    for change in changes:
        if change.policy != "isolation" or change.value is None:
            continue
        try:
            governs = matcher_of(_expressions(change, is_scoped=has_scope(view)))
        except UNREADABLE:
            continue
        names |= {name for name in view.namespaces if governs(name)}
    return tuple(sorted(names))


def _expressions(change: PolicyChange, *, is_scoped: bool) -> tuple[str, ...]:
    """Return the expressions over namespaces that are unloaded."""
    new, old = _body(change.value), _body(change.before)
    mine, theirs = set(new.get("namespaces", ())), set(old.get("namespaces", ()))
    if not is_scoped:
        return tuple(sorted(mine))
    scope = new.get("unload_scope") or SCOPES[0]
    if scope == "none":
        return ()
    has_other_primaries = bool(old) and sorted(old["primary"]) != sorted(new["primary"])
    is_whole = scope == "all_matching" or has_other_primaries
    return tuple(sorted(mine | theirs if is_whole else mine ^ theirs))


def _body(value: str | None) -> dict[str, Any]:
    """Return a policy as a document; nothing of one that is not there or cannot be read."""
    try:
        body: dict[str, Any] = json.loads(policy_kind("isolation").canonical(value or "{}"))
    except InputError:
        return {}
    return body if value else {}


def _major(version: str) -> int:
    head = version.partition(".")[0]
    return int(head) if is_whole(head) else _FIRST_WITH_SCOPE
