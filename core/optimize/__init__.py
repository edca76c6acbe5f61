"""The smallest-moves planner: fewest moves, least traffic, every constraint hard."""

from core.optimize.model import MEASURES, Binding, CurvePoint, LoadMeasure, Move, Proposal, Wish
from core.optimize.planner import optimize

__all__ = [
    "MEASURES",
    "Binding",
    "CurvePoint",
    "LoadMeasure",
    "Move",
    "Proposal",
    "Wish",
    "optimize",
]
