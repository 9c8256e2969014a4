"""Solvers, and the one loop that runs them."""

from lorank.solvers.alternating import Alternating
from lorank.solvers.checkpoint import Checkpoint
from lorank.solvers.dca import DCA
from lorank.solvers.gradient import GradientDescent
from lorank.solvers.grals import GRALS
from lorank.solvers.loop import Callback, Progress, Solver, Stopping, solve
from lorank.solvers.palm import PALM
from lorank.solvers.proximal import ProximalGradient
from lorank.solvers.result import History, Result, Status
from lorank.solvers.softimpute import SoftImputeALS

__all__ = [
    "DCA",
    "GRALS",
    "PALM",
    "Alternating",
    "Callback",
    "Checkpoint",
    "GradientDescent",
    "History",
    "Progress",
    "ProximalGradient",
    "Result",
    "SoftImputeALS",
    "Solver",
    "Status",
    "Stopping",
    "solve",
]
