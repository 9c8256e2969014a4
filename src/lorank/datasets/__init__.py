"""Data to learn from: synthetic problems, and loaders of public ratings and climate data."""

from lorank.datasets.climate import gas, gas_anomalies, ushcn, ushcn_anomalies
from lorank.datasets.mountains import mountain_stations
from lorank.datasets.ratings import (
    movielens_1m,
    movielens_10m,
    movielens_100k,
    movietweetings,
    standardise,
    yahoo_music,
)
from lorank.datasets.simulated import simulated_ratings
from lorank.datasets.splitting import split, split_locations
from lorank.datasets.stations import StationData, normalise
from lorank.datasets.synthetic import SyntheticProblem, synthetic

__all__ = [
    "StationData",
    "SyntheticProblem",
    "gas",
    "gas_anomalies",
    "mountain_stations",
    "movielens_1m",
    "movielens_10m",
    "movielens_100k",
    "movietweetings",
    "normalise",
    "simulated_ratings",
    "split",
    "split_locations",
    "standardise",
    "synthetic",
    "ushcn",
    "ushcn_anomalies",
    "yahoo_music",
]
