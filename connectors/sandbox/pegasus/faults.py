"""What meta servers were asked, and answers that get lost on their way: for tests of faults."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from connectors.pegasus.rpc.wire import WireError

_MOST_KEPT: Final = 10_000


class Mishaps:
    """A record of calls, and which answers are to be lost."""

    def __init__(self) -> None:
        self._heard: deque[str] = deque(maxlen=_MOST_KEPT)
        self._losses: Counter[str] = Counter()
        self.answer: str | None = None

    def count(self, call: str) -> int:
        """Return how often meta servers were asked for a call, one that does not lead included."""
        return self._heard.count(call)

    def lose_replies(self, call: str, times: int = 1) -> None:
        """Let the next calls of that name be carried out, and their connection break then."""
        self._losses[call] += times

    def answer_commands(self, answer: str | None) -> None:
        """Let replica servers answer this to every remote command; ``None``: as usual again."""
        self.answer = answer

    def hear(self, call: str) -> None:
        """Note a call."""
        self._heard.append(call)

    def check_reply(self, call: str) -> None:
        """Let the reply pass.

        Raises:
            WireError: It gets lost; the connection is closed.
        """
        if self._losses[call] > 0:
            self._losses[call] -= 1
            raise WireError(f"the reply to {call} gets lost, as was asked for")
