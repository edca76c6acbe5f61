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
        """Ranking rule of candidates; see :mod:`core.history.backtest.ranking`."""
        return (
            f"Order: candidates that meet the target, by {self.moves} a day, then by deviation; "
            "then the others, by distance from the target. Ties go to the candidate with fewer "
            "changed settings. No shedding is ranked only if it meets the target."
        )
