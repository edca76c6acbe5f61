"""What ``trimtab leader next`` does: the round that the leader observer predicts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from core.errors import InputError
from core.pulsar.leader.prediction import Forecast
from core.units import format_ratio
from dashboard import services
from dashboard.cli.config import configured, led_cluster
from dashboard.cli.output import Answer, emit, note, say, table
from dashboard.presenters import leader_words
from dashboard.services import leader


def next_round(config: Path | None, cluster: str, *, as_json: bool) -> int:
    """``trimtab leader next``."""
    loaded = configured(config)
    known = led_cluster(loaded, cluster)
    forecast = leader.leader_forecast(loaded, known.name)
    now_s = services.now().timestamp()
    if forecast is None:
        raise InputError(
            leader_words.missing(None, now_s, is_past=False),
            hint=f"Start `trimtab dashboard` or `trimtab collect {cluster}`.",
        )
    if not leader_words.is_shown(forecast, now_s):
        note(leader_words.missing(forecast, now_s, is_past=False))
    body = msgspec.to_builtins(forecast)
    return emit(Answer(body, lambda: _show(forecast, now_s)), as_json=as_json)


def accuracy_rows(forecast: Forecast) -> list[tuple[str, ...]]:
    """Return the measured accuracy as rows of a table."""
    return [
        (
            f"{one.lead_s:g} s",
            f"{one.exact} of {one.rounds}",
            f"{one.hits} of {one.predicted}",
            f"{one.hits} of {one.actual}",
        )
        for one in forecast.accuracy
    ]


ACCURACY_COLUMNS: Final = ("lead time", "rounds exact", "predicted that moved", "moved, predicted")


def _show(forecast: Forecast, now_s: float) -> None:
    prediction = forecast.next_round
    if prediction is not None and leader_words.is_shown(forecast, now_s):
        when = datetime.fromtimestamp(prediction.at_s, UTC)
        say(f"{leader_words.headline(prediction, now_s)} ({when:%H:%M:%S} UTC).")
        rows: list[tuple[Any, ...]] = [
            (
                format_ratio(one.share) if prediction.has_shares else "-",
                one.bundle,
                one.broker,
                max(one.destinations, key=lambda name: one.destinations[name], default="-"),
            )
            for one in sorted(prediction.bundles, key=lambda one: not one.destinations)
        ]
        table(("share", "bundle", "from", "to"), rows)
        for warning in leader_words.notes(prediction):
            say(f"Note: {warning}")
    if forecast.accuracy:
        say(leader_words.measured_note(forecast, now_s))
        table(ACCURACY_COLUMNS, accuracy_rows(forecast))
