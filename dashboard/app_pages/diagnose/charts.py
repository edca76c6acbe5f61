"""What each fix changes: the deviation now, and with the fix."""

from __future__ import annotations

import plotly.graph_objects as go

from core.diagnosis.model import Diagnosis
from core.units import format_percent
from dashboard.app_pages.diagnose.model import title_of
from dashboard.charts.template import ACCENT, NEUTRAL, WITHIN, styled

_ROW_PX = 46
_ROOM_FOR_TEXT = 1.25


def effect_bars(found: Diagnosis, target: float) -> go.Figure:
    """Return two bars a cause: max deviation from the mean without its fix, and with it."""
    causes = list(reversed(found.causes))
    names = [title_of(cause) for cause in causes]
    figure = go.Figure()
    for label, color, outcomes in (
        ("now", NEUTRAL, [cause.effect.before for cause in causes]),
        ("with the fix", ACCENT, [cause.effect.after for cause in causes]),
    ):
        values = [(outcome.deviation or 0.0) * 100 for outcome in outcomes]
        figure.add_trace(
            go.Bar(
                x=values,
                y=names,
                orientation="h",
                name=label,
                marker_color=color,
                text=[format_percent(value) for value in values],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{y}: %{x:.1f}%<extra>" + label + "</extra>",
            )
        )
    figure.add_vline(x=target * 100, line_color=WITHIN, line_width=1, line_dash="dot")
    figure.update_layout(barmode="group", bargap=0.35)
    widest = max(
        (outcome.deviation or 0.0)
        for cause in causes
        for outcome in (cause.effect.before, cause.effect.after)
    )
    figure.update_xaxes(
        title_text="max deviation from the mean, %",
        range=[0, max(widest, target) * 100 * _ROOM_FOR_TEXT],
    )
    return styled(figure, height=90 + _ROW_PX * max(len(causes), 1))
