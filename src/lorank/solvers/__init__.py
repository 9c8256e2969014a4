"""Solvers, and the one loop that runs them."""

from lorank.solvers.alternating import Alternating
from lorank.solvers.base import Callback, Progress, Solver, Stopping, solve
from lorank.solvers.checkpoint import Checkpoint
from lorank.solvers.gradient import GradientDescent
from lorank.solvers.grals import GRALS
from lorank.solvers.proximal import ProximalGradient
from lorank.solvers.result import History, Result, Status

__all__ = [
    "GRALS",
    "Alternating",
    "Callback",
    "Checkpoint",
    "GradientDescent",
    "History",
    "Progress",
    "ProximalGradient",
    "Result",
    "Solver",
    "Status",
    "Stopping",
    "solve",
]
