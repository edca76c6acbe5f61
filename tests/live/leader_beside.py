"""The product beside a real leader: what its observer published of each round, and when.

The collector and the pages run as an operator starts them, in a process and a state folder of their
own; what they publish is read as pages and ``trimtab leader next`` read it. Nothing is replayed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from real_pulsar import RealPulsar

from connectors.pulsar.leader.observer import forecast_path, read_forecast
from core.pulsar.leader.accuracy import JudgedRound, judge
from core.pulsar.leader.prediction import LEADS_S, ActualRound, Forecast, RoundPrediction

_CLUSTER: Final = "real"
_POLL_S: Final = 0.1
_ASKED_S: Final = 10.0
_NEAR_S: Final = 10.0
_SLACK_S: Final = 1.0
_RETIMED_S: Final = 0.001


class Seen(msgspec.Struct, kw_only=True):
    """A prediction that a reader could see, and from when on, seconds since the epoch."""

    seen_at_s: float
    prediction: RoundPrediction
    has_begun: bool


class Beside(msgspec.Struct, kw_only=True):
    """What was seen of the product beside one cluster.

    Attributes:
        watching_s: When its observer first said that it watches; ``None``: never.
        seen: Every prediction that was published, in order.
        asked: How often ``trimtab leader next --json`` was asked ten seconds before a round.
        answered: How often it named that round.
        last: The last forecast, with the product's own measured accuracy.
    """

    watching_s: float | None = None
    seen: list[Seen] = []
    asked: int = 0
    answered: int = 0
    last: Forecast | None = None


class ProductBeside:
    """``trimtab dashboard`` for one cluster, and a reader of what it publishes.

    Args:
        cluster: A running cluster.
        folder: For its configuration, its state and its log.
        port: Of the pages.
    """

    def __init__(self, cluster: RealPulsar, folder: Path, port: int) -> None:
        self.found = Beside()
        self._command = Path(sys.executable).with_name("trimtab")
        state = folder / "state"
        state.mkdir(parents=True, mode=0o700)
        self._config = folder / "trimtab.toml"
        text = f'state_dir = "{state}"\n{cluster.config_text(_CLUSTER)}'
        self._config.write_text(text, "utf-8")
        self._config.chmod(0o600)
        self._forecast = forecast_path(state / "leader", _CLUSTER)
        self._log = (folder / "product.log").open("wb")
        self._port = port
        self._stop = threading.Event()
        self._reader = threading.Thread(target=self._read, name="reader beside")
        self._product: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._product = subprocess.Popen(
            [self._command, "dashboard", "--config", self._config, "--port", str(self._port)],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1"},
            start_new_session=True,
        )
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._reader.join()
        if self._product is not None:
            self._product.send_signal(signal.SIGINT)
            try:
                self._product.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._product.pid, signal.SIGKILL)
        self._log.close()

    def _read(self) -> None:
        found, asked_for_s = self.found, 0.0
        while not self._stop.wait(_POLL_S):
            forecast = read_forecast(self._forecast)
            if forecast is None:
                continue
            found.last = forecast
            if forecast.status == "watching" and found.watching_s is None:
                found.watching_s = forecast.written_at_s
            if forecast.last_round is not None:
                self._note(forecast.last_round, has_begun=True)
            coming = forecast.next_round
            if coming is None:
                continue
            self._note(coming, has_begun=False)
            left_s = coming.at_s - time()
            if 0 < left_s <= _ASKED_S and abs(coming.at_s - asked_for_s) > _NEAR_S:
                asked_for_s = coming.at_s
                found.asked += 1
                threading.Thread(target=self._ask, args=(asked_for_s,), daemon=True).start()

    def _note(self, prediction: RoundPrediction, *, has_begun: bool) -> None:
        of_kind = (one for one in reversed(self.found.seen) if one.has_begun == has_begun)
        before = next(of_kind, None)
        if before is None or before.prediction != prediction:
            seen = Seen(seen_at_s=time(), prediction=prediction, has_begun=has_begun)
            self.found.seen.append(seen)

    def _ask(self, round_s: float) -> None:
        command = [self._command, "leader", "next", _CLUSTER, "--config", self._config, "--json"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:  # counted as asked, and not as answered
            return
        answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        named = (answer.get("next_round") or {}).get("at_s", 0.0)
        self.found.answered += abs(named - round_s) < _NEAR_S


def judged_beside(beside: Beside, rounds: Sequence[ActualRound]) -> list[JudgedRound]:
    """Judge what was published of true rounds.

    A lead time has the prediction that a reader saw so long before the true start of the round,
    give or take a second; 0 is the prediction at the round's start, made of what was known before
    it and published a moment later. Rounds without any are left out of that lead time, and the
    caller says how many.

    Args:
        beside: What was seen.
        rounds: By the leader's log.
    """
    judged = []
    for one in rounds:
        made: dict[float, RoundPrediction] = {}
        for seen in beside.seen:
            prediction = seen.prediction
            if abs(prediction.at_s - one.at_s) > _NEAR_S:
                continue
            if seen.has_begun:
                made[0.0] = prediction
                continue
            ahead_s = one.at_s - seen.seen_at_s
            for lead_s in LEADS_S:
                if lead_s > 0 and ahead_s >= lead_s - _SLACK_S:
                    made[lead_s] = prediction
        judged.append(judge(made, one))
    return judged


def begun_by_a_move(beside: Beside) -> int:
    """Return how many rounds began earlier than was last published: with the first move seen.

    Their prediction at the start is made when that move is known.
    """
    count, coming_s = 0, 0.0
    for seen in beside.seen:
        at_s = seen.prediction.at_s
        if not seen.has_begun:
            coming_s = at_s
        elif _RETIMED_S < coming_s - at_s < _NEAR_S:
            count += 1
    return count
