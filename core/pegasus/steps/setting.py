"""Set a server setting: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pegasus.actions.setting`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, Literal, Self

from msgspec import structs

from core.pegasus.server_settings import CHANGEABLE, changeable, value_before
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.base import PegasusStep, PlanBuilder, ProjectedState
from core.step import Diagnostic, Executed, Inverse, Phrase, SettingChange, Step
from core.units import pluralize
from core.values import by_server, inverse_value

LEADER: Final = ""
EVERY_NODE: Final = "*"


class SetServerSetting(PegasusStep, frozen=True, kw_only=True, tag="set_server_setting"):
    """Change a setting of servers at run time; none of them survives a restart of its server.

    Attributes:
        key: Name of a remote command (``meta.lb.only_move_primary``,
            ``nfs.max_copy_rate_megabytes_per_disk``) or of a flag (``balance_cluster``).
        server: :data:`LEADER`: the leading meta server; :data:`EVERY_NODE`: every living replica
            server; else the registered name of one.
        how: ``command``: a remote command; ``flag``: ``/updateConfig``.
        before: What it was when the plan was made, as the server writes it; where nodes differ a
            JSON object of node to value; ``None`` if unknown. The precondition where known.
        value: What it shall be.
        is_restored: Restored when the run ends, however it ends.
    """

    phrase: ClassVar[Phrase] = Phrase("change", "server setting", "changed", "was changed", order=5)

    key: str
    value: str
    server: str = LEADER
    how: Literal["command", "flag"] = "command"
    before: str | None = None
    is_restored: bool = False

    @property
    def subject(self) -> str:
        """The key, with the server where it is not the leading meta server."""
        return self.key if self.server == LEADER else f"{self.key}@{self.server}"

    @property
    def node(self) -> str | None:
        """Registered name of the one replica server; ``None`` for the leader, or all of them."""
        return None if self.server in (LEADER, EVERY_NODE) else self.server

    @property
    def recorded_as(self) -> tuple[str, ...]:
        """The subject, and the name of the setting in a snapshot."""
        found = (one.setting.name for one in CHANGEABLE if one.key == self.key)
        return tuple(dict.fromkeys((self.subject, next(found, self.subject))))

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def setting(self) -> SettingChange:
        """The value."""
        return SettingChange(self.before, self.value, is_temporary=self.is_restored)

    def value_in(self, facts: PegasusFacts) -> str | None:
        """Return the value as its servers report it."""
        return value_before(changeable(self.key), facts, self.node)

    @property
    def is_paced(self) -> bool:
        """It moves nothing."""
        return False

    @property
    def lets_others_move(self) -> bool:
        """Servers do, as the value has it."""
        return self.temporary_value is None

    @property
    def not_undone(self) -> str:
        """Changes by servers while the value was set."""
        if self.temporary_value is not None:
            return ""
        return "Replicas that servers moved while the setting was changed stay where they are."

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Set balance_cluster of the leading meta server to true (until now false)``."""
        was = (
            "current value unknown"
            if self.before is None
            else f"currently {self.before or 'empty'}"
        )
        until = ", until the run ends" if self.is_restored else ""
        return f"Set {self.key} of {self._describe_server()} to {self.value} ({was}){until}"

    def describe_progress(self) -> str:
        """Return ``Setting balance_cluster of the leading meta server to true``."""
        return f"Setting {self.key} of {self._describe_server()} to {self.value}"

    def _describe_server(self) -> str:
        names = {LEADER: "the leading meta server", EVERY_NODE: "every replica server"}
        return names.get(self.server, self.server)

    @classmethod
    def summarize(cls, steps: Sequence[Self]) -> str:
        """Return ``changes 2 settings``."""
        return f"changes {pluralize(len({step.subject for step in steps}), 'setting')}"

    def command_lines(self) -> tuple[str, ...]:
        """Return the line of Pegasus' shell, or the request of a flag."""
        if self.how == "flag":
            return (f"curl 'http://<leading meta server>/updateConfig?{self.key}={self.value}'",)
        where = {LEADER: "-t meta-server", EVERY_NODE: "-t replica-server"}
        to = where.get(self.server, f"-l {self.server}")
        return (f"remote_command {to} {self.key} {self.value}",)

    def restore_lines(self, before: str | None) -> tuple[str, ...]:
        """Return the lines that set the former value, one for each server where these differed."""
        before = before or ""
        try:
            values = json.loads(before) if before.startswith("{") else None
        except ValueError:
            values = None
        if not isinstance(values, dict):
            return structs.replace(self, value=before).command_lines()
        return tuple(
            line
            for server, value in sorted(values.items())
            for line in structs.replace(self, server=server, value=str(value)).command_lines()
        )

    # -- precondition, effect and inverse -------------------------------------------------------

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Allow it: what the setting is now is read right before it is changed."""
        del state
        return None

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it with its value before as of now."""
        plan.set_setting(self.key, self.value, server=self.node, is_restored=self.is_restored)

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield the step that sets the value of before, one a server where these differed."""
        before = done.before.value if done.before else self.before
        held = value_before(changeable(self.key), plan.facts, self.node)
        if before is None:
            yield Inverse(
                finding=Diagnostic(
                    severity="warning",
                    code="undo_unknown",
                    sentence=f"The value of {self.subject} before the run is unknown: it stays.",
                    subject=self.subject,
                    hint="Set it manually if needed.",
                )
            )
            return
        finding = inverse_value(self.subject, held=held, left_at=self.value, before=before)
        if finding is not None:
            yield Inverse(finding=finding)
            return
        for server, value in (by_server(before) or {self.server: before}).items():
            yield Inverse(SetServerSetting(key=self.key, value=value, server=server, how=self.how))


def server_settings_of(steps: Iterable[Step]) -> list[SetServerSetting]:
    """Return the changes of server settings among the steps of a plan, in order."""
    return [step for step in steps if isinstance(step, SetServerSetting)]
