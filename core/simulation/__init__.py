"""Rounds of shedding and placement on a snapshot, until it converges or a horizon is reached."""

from core.simulation.engine import changed_fleet, simulate
from core.simulation.model import Flap, RoundResult, Run, SimulatedMove, Simulation, WhatIf

__all__ = [
    "Flap",
    "RoundResult",
    "Run",
    "SimulatedMove",
    "Simulation",
    "WhatIf",
    "changed_fleet",
    "simulate",
]
