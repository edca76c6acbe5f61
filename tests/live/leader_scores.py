"""How good predictions of recorded rounds were: by lead time, and the calibration of the shares.

As a script it prints both as Markdown, of recordings that ``leader_rounds.py`` made::

    python tests/live/leader_scores.py FOLDER uniform threshold avg

With ``--beside`` it scores what the product published beside the cluster, and replays nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from leader_beside import Beside, begun_by_a_move, judged_beside

from core.pulsar.leader.accuracy import JudgedRound, accuracy_by_lead, calibration, judge
from core.pulsar.leader.events import read_recording
from core.pulsar.leader.prediction import ActualRound, RoundPrediction
from core.pulsar.leader.recorded import predictions_by_lead, replay_recording
from core.pulsar.leader.replay import LeaderReplay
from core.pulsar.setting_values import parse_upstream_value
from core.pulsar.settings import SETTING_BY_KEY

_NEAR_S: Final = 10.0


def judged_rounds(folder: Path, name: str) -> list[JudgedRound]:
    """Return the rounds of one recording, judged by what the leader's log has of them.

    Args:
        folder: Of ``leader_rounds.py``.
        name: Series.
    """
    texts = json.loads((folder / f"{name}.settings.json").read_text())
    configured = {
        key: parse_upstream_value(SETTING_BY_KEY[key], text)
        for key, text in texts.items()
        if key in SETTING_BY_KEY
    }
    rounds = _true_rounds(folder, name)
    events = list(read_recording(folder / f"{name}.jsonl.gz"))
    held = list(replay_recording(events, LeaderReplay(configured=configured)))
    early = predictions_by_lead(
        events, LeaderReplay(configured=configured), [one.at_s for one in rounds]
    )
    judged = []
    for one in rounds:
        made: dict[float, RoundPrediction] = dict(early.get(one.at_s, {}))
        near = min(held, key=lambda each: abs(each.at_s - one.at_s), default=None)
        if near is not None and abs(near.at_s - one.at_s) < _NEAR_S:
            made[0.0] = near
        judged.append(judge(made, one))
    return judged


def _true_rounds(folder: Path, name: str) -> list[ActualRound]:
    return [
        ActualRound(at_s=one["t"], selected=tuple(one["selected"]), unloaded=tuple(one["unloaded"]))
        for one in json.loads((folder / f"{name}.rounds.json").read_text())
    ]


def published_rounds(folder: Path, name: str) -> list[JudgedRound]:
    """Return the rounds that began since the product watched, judged by what it published.

    Args:
        folder: Of ``leader_rounds.py --beside``.
        name: Series.
    """
    raw = (folder / f"{name}.beside.json").read_bytes()
    beside = msgspec.json.decode(raw, type=Beside)
    since_s = beside.watching_s or float("inf")
    rounds = [one for one in _true_rounds(folder, name) if one.at_s > since_s]
    judged = judged_beside(beside, rounds)
    ownless = sum(not any(score.lead_s == 0 for score in one.scores) for one in judged)
    sys.stdout.write(
        f"{name}: {len(rounds)} rounds since it watched, {ownless} without a prediction at their "
        f"start, {begun_by_a_move(beside)} begun by a move that was seen; the command named "
        f"{beside.answered} of {beside.asked} rounds it was asked for\n"
    )
    return judged


def _table(series: dict[str, list[JudgedRound]]) -> list[str]:
    lines = ["| lead (s) | " + " | ".join(series) + " |", "|---" * (len(series) + 1) + "|"]
    found = {
        name: {one.lead_s: one for one in accuracy_by_lead(rounds)}
        for name, rounds in series.items()
    }
    for lead_s in sorted({lead for leads in found.values() for lead in leads}):
        cells = [
            f"{one.active_exact} of {one.active} active, {one.idle} idle; "
            f"{one.hits} / {one.predicted} / {one.actual}"
            if (one := leads.get(lead_s))
            else ""
            for leads in found.values()
        ]
        lines.append(f"| {lead_s:g} | " + " | ".join(cells) + " |")
    return lines


def _calibration(rounds: Sequence[JudgedRound]) -> list[str]:
    lines = ["| share shown | bundles | mean share | came true |", "|---|---|---|---|"]
    lines += [
        f"| {one.low:.1f} to {one.high:.1f} | {one.shown} | {one.share_total / one.shown:.2f} "
        f"| {one.came_true} ({one.came_true / one.shown:.0%}) |"
        for one in calibration(rounds)
    ]
    return lines


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Score recordings of real leaders.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("series", nargs="+")
    parser.add_argument("--beside", action="store_true", help="what the product published")
    arguments = parser.parse_args()
    judged = published_rounds if arguments.beside else judged_rounds
    series = {name: judged(arguments.folder, name) for name in arguments.series}
    every = [one for rounds in series.values() for one in rounds]
    sys.stdout.write("\n".join([*_table(series), "", *_calibration(every), ""]))
    (arguments.folder / "judged.json").write_bytes(msgspec.json.encode(series))
    return 0


if __name__ == "__main__":
    sys.exit(main())
