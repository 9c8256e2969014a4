"""Fitted models: prediction, intervals, recommendations, new rows, model files and folders of shards."""

from lorank.models.model import Model, load, save
from lorank.models.recommending import Ranking, rankings, recommend, similar
from lorank.models.setting import Setting

__all__ = ["Model", "Ranking", "Setting", "load", "rankings", "recommend", "save", "similar"]
