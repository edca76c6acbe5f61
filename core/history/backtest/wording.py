"""What a back-test calls servers and moves: each system by its own terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The nouns of a system.

    Attributes:
        server: What carries load.
        moves: What the balancer does, several of them: the columns ``unloads`` count these.
        subject: What moves.
    """

    server: str
    moves: str
    subject: str

    @property
    def rule(self) -> str:
        """How candidates are ranked; see :mod:`core.history.backtest.ranking`."""
        return (
            f"Candidates that meet the target come first, those with the fewest {self.moves} a day "
            "before the others, then those with the smaller deviation; of the rest, whoever misses "
            "the target least; of equals, whoever changes the fewest settings. No shedding is "
            "ranked only where it meets the target."
        )
