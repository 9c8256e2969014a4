"""Imputation in a scikit-learn pipeline: impute, scale, classify.

The table is like one of gene expressions: genes of one pathway vary together, so that missing values can be predicted
from the others. The imputer is fitted on the training samples only, and folds in the test samples.
"""

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lorank

rng = np.random.default_rng(0)
samples, genes, pathways = 200, 120, 4
activity = rng.standard_normal((samples, pathways))
expression = activity @ rng.standard_normal((pathways, genes)) + 0.5 * rng.standard_normal((samples, genes))
ill = activity[:, 0] + 0.3 * rng.standard_normal(samples) > 0
measured = np.where(rng.random(expression.shape) < 0.6, np.nan, expression)

scores = {}
for name, imputer in {"low rank": lorank.LowRankImputer(rank=4), "column means": SimpleImputer()}.items():
    pipeline = make_pipeline(imputer, StandardScaler(), LogisticRegression(C=0.01))
    scores[name] = cross_val_score(pipeline, measured, ill, cv=5).mean()
    filled = imputer.fit_transform(measured)
    error = np.sqrt(np.mean((filled - expression)[np.isnan(measured)] ** 2))
    print(f"{name}: error of the imputed cells {error:.2f}, accuracy {scores[name]:.3f}")
