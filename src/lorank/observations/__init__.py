"""Observed entries of a matrix: their values and positions, the ids of rows and columns, DataFrames in and out."""

from lorank.observations.identifiers import Identifiers
from lorank.observations.lines import Lines
from lorank.observations.observations import Observations
from lorank.observations.observing import observe

__all__ = ["Identifiers", "Lines", "Observations", "observe"]
