"""What every step on a Pulsar cluster has besides: a REST request, checks and an inverse."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol
from urllib.parse import quote

from core.ids import namespace_of
from core.pulsar.policy_kinds import PolicyChange
from core.step import Diagnostic, Executed, Inverse, Observation, ResultFlags, Step, StepBase


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """One request to the admin REST interface.

    Attributes:
        method: ``PUT``, ``POST`` or ``DELETE``.
        path: Path and query below ``/admin/v2/``, quoted.
        body: JSON; ``None`` if no body.
    """

    method: str
    path: str
    body: str | None = None


class Checks(Protocol):
    """Checks on a fresh snapshot; each returns the first refusal, or ``None``."""

    def bundle(self, bundle: str) -> Diagnostic | None:
        """Return the reason a bundle cannot be moved."""
        ...

    def destination(self, broker: str) -> Diagnostic | None:
        """Return the refusal of a destination."""
        ...

    def move(self, bundle: str, broker: str) -> Diagnostic | None:
        """Return the refusal of this bundle on that broker."""
        ...

    def placement(self, bundle: str) -> Diagnostic | None:
        """Return the reason the cluster must not place a bundle now."""
        ...

    def split(self, bundle: str, algorithm: str, positions: Sequence[int]) -> Diagnostic | None:
        """Return the reason a split would be refused or useless."""
        ...

    def owner(self, bundle: str) -> str:
        """Return the owner of a bundle that :meth:`bundle` has nothing against."""
        ...

    def setting(self, key: str, value: str | None) -> Diagnostic | None:
        """Return the validation error for a dynamic setting; a ``None`` value removes it."""
        ...

    def policy(self, step: PulsarStep) -> Diagnostic | None:
        """Return the validation error for a policy, given those that the plan sets before it."""
        ...

    def stored_policy(self, policy: str, name: str) -> str | None:
        """Return the current policy, or ``None`` if not set."""
        ...

    def stored_setting(self, key: str) -> str | None:
        """Return the dynamic value of a setting, or ``None`` if it has none."""
        ...


class PulsarStep(StepBase, frozen=True, kw_only=True):
    """One step on a Pulsar cluster."""

    result_flags: ClassVar[Mapping[str, ResultFlags]] = {
        **Step.result_flags,
        "landed_elsewhere": ResultFlags(differs="moved elsewhere than requested"),
        "split_elsewhere": ResultFlags(differs="split elsewhere than requested"),
        "returned": ResultFlags(differs="returned to the previous broker"),
        "idle": ResultFlags(needs_grace=True),
        "unassigned": ResultFlags(
            needs_grace=True, differs="left unassigned", unserved="unassigned"
        ),
        "owner_lost": ResultFlags(
            needs_grace=True, differs="lost its broker", unserved="unassigned"
        ),
        "not_answering": ResultFlags(unserved="owner does not answer"),
        "moved_meanwhile": ResultFlags(is_external_change=True),
        "unknown_bundle": ResultFlags(is_doubtful=True),
        "owner_unknown": ResultFlags(is_doubtful=True),
        "destination_unreported": ResultFlags(is_doubtful=True),
    }

    @property
    def unloads(self) -> tuple[str, ...]:
        """Bundles that it takes from their owners: their clients reconnect."""
        return ()

    @property
    def policy_change(self) -> PolicyChange | None:
        """The policy that it sets or removes, or ``None``."""
        return None

    def admin_words(self) -> list[str]:
        """Return the words of ``pulsar-admin`` that do the same, without the program's name."""
        raise NotImplementedError

    def request(self) -> AdminRequest:
        """Return the request that executes it."""
        raise NotImplementedError

    def check(self, checks: Checks) -> Diagnostic | None:
        """Return its refusal, or ``None`` if its precondition holds."""
        raise NotImplementedError

    def inverse(self, done: Executed, checks: Checks) -> Inverse:
        """Return its inverse, on a fresh snapshot."""
        raise NotImplementedError

    def command_lines(self) -> tuple[str, ...]:
        """Return the ``pulsar-admin`` line, quoted for a shell."""
        return (shlex.join(["pulsar-admin", *self.admin_words()]),)


def policy_change_of(step: Step) -> PolicyChange | None:
    """Return the policy that a step sets or removes, or ``None``."""
    return step.policy_change if isinstance(step, PulsarStep) else None


def policy_changes(steps: Iterable[Step]) -> list[PolicyChange]:
    """Return the changes of policies among the steps of a plan, in order."""
    found = map(policy_change_of, steps)
    return [change for change in found if change is not None]


class BundleStep(PulsarStep, frozen=True, kw_only=True):
    """A step whose subject is a bundle.

    Attributes:
        bundle: Name, ``tenant/namespace/0xL_0xU``.
        owner: Broker id of the owner when the plan was made: the step's precondition.
    """

    bundle: str
    owner: str

    @property
    def subject(self) -> str:
        """The bundle."""
        return self.bundle

    @property
    def namespace(self) -> str | None:
        """The bundle's namespace."""
        return namespace_of(self.bundle)

    @property
    def bundle_words(self) -> list[str]:
        """The bundle as ``pulsar-admin`` takes it."""
        return [namespace_of(self.bundle), "-b", self.bundle.rpartition("/")[2]]

    @property
    def bundle_path(self) -> str:
        """The bundle as part of an address, quoted."""
        namespace = quote(namespace_of(self.bundle), safe="/")
        return f"namespaces/{namespace}/{quote(self.bundle.rpartition('/')[2], safe='')}"

    def describe_before(self, seen: Observation | None) -> str:
        """Return the owner before it, ``unassigned`` if there is none."""
        return (seen.holder if seen else self.owner) or "unassigned"

    def check_owner(self, checks: Checks) -> Diagnostic | None:
        """Return the refusal of a bundle that left its planned owner, or ``None``."""
        refusal = checks.bundle(self.bundle)
        if refusal is not None:
            return refusal
        owner = checks.owner(self.bundle)
        if owner == self.owner:
            return None
        return Diagnostic(
            severity="error",
            code="moved_meanwhile",
            sentence=f"{self.bundle} was at {self.owner} when the plan was made, and is now "
            f"at {owner}.",
            subject=self.bundle,
            hint="Check it again, and create a new plan if it still has to move.",
        )
