"""The smallest-moves planner: fewest moves, least traffic, every constraint hard."""

from core.optimize.model import Binding, CurvePoint, PlannedMove, Proposal
from core.optimize.planner import optimize, optimize_view
from core.optimize.request import MEASURES, LoadMeasure, OptimizeRequest

__all__ = [
    "MEASURES",
    "Binding",
    "CurvePoint",
    "LoadMeasure",
    "OptimizeRequest",
    "PlannedMove",
    "Proposal",
    "optimize",
    "optimize_view",
]
