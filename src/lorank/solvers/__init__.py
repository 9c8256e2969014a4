"""Solvers, and the one loop that runs them."""

from lorank.solvers.alternating import Alternating
from lorank.solvers.base import Solver
from lorank.solvers.checkpoint import Checkpoint
from lorank.solvers.dca import DCA
from lorank.solvers.gibbs import BPMF
from lorank.solvers.gradient import GradientDescent
from lorank.solvers.grals import GRALS
from lorank.solvers.loop import Callback, Progress, Stopping, solve
from lorank.solvers.palm import PALM
from lorank.solvers.posterior import Posterior
from lorank.solvers.proximal import ProximalGradient
from lorank.solvers.result import History, Result, Status
from lorank.solvers.sensing import SensingGradient
from lorank.solvers.softimpute import SoftImputeALS

__all__ = [
    "BPMF",
    "DCA",
    "GRALS",
    "PALM",
    "Alternating",
    "Callback",
    "Checkpoint",
    "GradientDescent",
    "History",
    "Posterior",
    "Progress",
    "ProximalGradient",
    "Result",
    "SensingGradient",
    "SoftImputeALS",
    "Solver",
    "Status",
    "Stopping",
    "solve",
]
