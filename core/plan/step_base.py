"""What every step of a plan has, whatever system it acts on."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class StepBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What every step has; ``kind`` is the tag of its type in a plan file.

    Attributes:
        reason: Why, one sentence; shown and kept, never interpreted.
    """

    reason: str = ""

    @property
    def kind(self) -> str:
        """Stable word for the type of the step."""
        return str(self.__struct_config__.tag)

    @property
    def subject(self) -> str:
        """What is acted on: the name of a bundle, or the key of a setting."""
        raise NotImplementedError

    @property
    def namespace(self) -> str | None:
        """Namespace that it belongs to; ``None``: to none."""
        return None

    @property
    def scopes(self) -> tuple[str, ...]:
        """What exclusions name of it: its namespace, or the tables that it touches."""
        return () if self.namespace is None else (self.namespace,)

    @property
    def is_paced(self) -> bool:
        """Whether it counts as a move: pace and moves of the day are about those only."""
        return True

    @property
    def kept(self) -> str | None:
        """Value that it gives its subject, a setting, for the time of the run; ``None``: none."""
        return None

    @property
    def owner(self) -> str | None:
        """Broker id of the subject's owner when the plan was made; ``None``: it has none."""
        return None

    @property
    def destination(self) -> str | None:
        """Broker id that is asked to take it; ``None``: nobody in particular."""
        return None

    @property
    def foreseen(self) -> Mapping[str, float]:
        """Broker id to probability: where it is expected to land; empty: nothing moves."""
        return {}

    @property
    def likely(self) -> tuple[str, ...]:
        """Brokers of :attr:`foreseen`, most likely first, equals by name."""
        return tuple(sorted(self.foreseen, key=lambda broker: (-self.foreseen[broker], broker)))
